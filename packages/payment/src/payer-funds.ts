import type { Clock } from "@turnpike/base";
import { BoundedMap } from "./bounded-map.ts";
import type { Ledger } from "./ledger-types.ts";
import type { FundsAccount, VerifiedPayment, Verifier } from "./types.ts";

/** Modules of {@link PayerFunds}, which owns none of them. */
export interface PayerFundsModules {
  readonly ledger: Pick<Ledger, "inFlight">;
  readonly verifier: Pick<Verifier, "readFunds">;
  readonly clock: Clock;
}

/** Maximum number of payments in flight of one account that are looked at; a payment behind more of them does not wait. */
const MAX_PAYMENTS = 200;
/** Time for which one look answers for all payments of an account that come meanwhile. */
const LOOK_MS = 500;

/**
 * Distinguishes funds that are spoken for from those that only seem to be. A settlement that the chain has made and that the
 * ledger has not seen yet is missing in the balance and is reserved as well: it is free in a moment. One that is still to be
 * made is reserved for good: to wait for it is to wait for another payment to fail.
 */
export class PayerFunds {
  readonly #modules: PayerFundsModules;
  readonly #looks = new BoundedMap<string, Promise<bigint | undefined>>({ maxEntries: 1_000, ttlMs: LOOK_MS });

  constructor(modules: PayerFundsModules) {
    this.#modules = modules;
  }

  /**
   * True when the payer's balance carries this payment beside all in flight that have not left it: then it can be claimed as
   * soon as the ledger has seen those that have. One that its payer has cancelled never leaves it.
   */
  async carry({ payment }: VerifiedPayment): Promise<boolean> {
    const { network, asset } = payment.option;
    const account = { network, asset, from: payment.authorization.from };
    const free = await this.#free(account);
    return free !== undefined && free >= payment.authorization.value;
  }

  /** The balance without what is still to be taken from it; undefined where too much is in flight to look at. */
  #free(account: FundsAccount): Promise<bigint | undefined> {
    const { clock } = this.#modules;
    const name = `${account.network} ${account.asset} ${account.from}`.toLowerCase();
    const shared = this.#looks.get(name, clock.monotonicMs());
    if (shared !== undefined) return shared;
    const look = this.#look(account);
    look.catch(() => this.#looks.delete(name));
    this.#looks.set(name, look, clock.monotonicMs());
    return look;
  }

  async #look(account: FundsAccount): Promise<bigint | undefined> {
    const { ledger, verifier } = this.#modules;
    const inFlight = await ledger.inFlight(account.network, account.asset, account.from, MAX_PAYMENTS);
    if (inFlight.length >= MAX_PAYMENTS) return undefined;
    const nonces = inFlight.map(({ nonce }) => nonce);
    const { balance, used } = await verifier.readFunds(account, nonces);
    return inFlight.reduce((free, { value }, at) => (used[at] === true ? free : free - value), balance);
  }
}
