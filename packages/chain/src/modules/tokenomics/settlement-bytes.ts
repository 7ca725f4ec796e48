import type { session } from "@turnpike/proto";
import { application, encodeMessage } from "@turnpike/proto";
import type { RevenueShare } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { getApplication } from "../application/state.ts";
import type { UnsettledSession } from "../proof/unsettled-claims.ts";
import { SessionFacts } from "../session/facts.ts";

/**
 * Maximum bytes of events of the settlement of one block, unless they are of sessions that one application's stake pays together.
 * CometBFT accepts 100 MiB for all results of a block, and a record of the store has 256 MiB; a supplier may share with a hundred
 * receivers, and thousands of claims are due in one block.
 */
export const MAX_SETTLEMENT_BYTES = 16 * 1024 * 1024;

/** Maximum bytes of a record within an event at the end of a block; a longer one is without its lists. */
export const MAX_EVENT_RECORD_BYTES = 2_048;

/** Bytes of a claim's own events, beside its receivers and the application. */
const CLAIM_BYTES = 2_200;
/** Bytes for a receiver in the event of a claim, and the number of times that this names its address. */
const [DETAIL_BYTES, DETAIL_MENTIONS] = [330, 3] as const;
/** Bytes of a receiver's payments, once for all claims of a block, and the number of times that their events name its address. */
const [PAYMENT_BYTES, PAYMENT_MENTIONS] = [1_800, 6] as const;
/** Number of times that a claim's events name the application and the operator. */
const PARTY_MENTIONS = 6;
/** Bytes of an application's record in the event of its unbonding: beside its encoding, and for each byte of this. */
const [RECORD_BYTES, RECORD_FACTOR] = [400, 3] as const;

/** Bytes of the event of a supplier that begins to unbond, once for all claims of a block: its owner's address has 419 characters at most. */
const SUPPLIER_BYTES = 1_100;

/**
 * An upper bound of the bytes of settlement's events, before they are made: by the number of claims, receivers and the lengths of
 * their addresses, so that all nodes settle the same sessions in a block.
 */
export class SettlementBytes {
  readonly #ctx: Context;
  readonly #sharesOf: (operator: string, header: session.SessionHeader) => readonly RevenueShare[];
  readonly #receivers = new Set<string>();
  readonly #suppliers = new Set<string>();
  #sum = 0;

  constructor(ctx: Context, sharesOf: (operator: string, header: session.SessionHeader) => readonly RevenueShare[]) {
    this.#ctx = ctx;
    this.#sharesOf = sharesOf;
  }

  /** Bytes of all sessions that were added. */
  get sum(): number {
    return this.#sum;
  }

  add({ header, operators, applicationAddress }: UnsettledSession): void {
    if (header === undefined) return;
    const facts = new SessionFacts(this.#ctx, header);
    const others = [facts.serviceOwner() ?? "", facts.tokenomicsParams().daoRewardAddress, applicationAddress];
    const record = getApplication(this.#ctx, applicationAddress);
    const recordBytes = record === undefined ? 0 : encodeMessage(application.ApplicationSchema, record).length;
    const ofEach =
      CLAIM_BYTES +
      RECORD_BYTES +
      RECORD_FACTOR * Math.min(recordBytes, MAX_EVENT_RECORD_BYTES) +
      applicationAddress.length * PARTY_MENTIONS;
    for (const operator of operators) {
      this.#sum += ofEach + operator.length * PARTY_MENTIONS;
      if (!this.#suppliers.has(operator)) this.#sum += SUPPLIER_BYTES;
      this.#suppliers.add(operator);
      for (const address of others) this.#addReceiver(address);
      for (const { address } of this.#sharesOf(operator, header)) this.#addReceiver(address);
    }
  }

  #addReceiver(address: string): void {
    this.#sum += DETAIL_BYTES + DETAIL_MENTIONS * address.length;
    if (this.#receivers.has(address)) return;
    this.#receivers.add(address);
    this.#sum += PAYMENT_BYTES + PAYMENT_MENTIONS * address.length;
  }
}
