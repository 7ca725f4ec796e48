import { isRecord } from "@turnpike/base";
import type { SessionHead, SessionOutcome } from "../evidence/types.ts";

type Fields = Readonly<Record<string, unknown>>;

/** What a settlement's events say, by {@link settlementKey}. */
export type Settlements = ReadonlyMap<string, SessionOutcome>;

const PREFIX = "pocket.tokenomics.";
const SHAREHOLDER = /_SUPPLIER_SHAREHOLDER_REWARD_DISTRIBUTION$/;

/** Names a claim as the events of its settlement do. */
export function settlementKey({ operatorAddress, header }: Pick<SessionHead, "operatorAddress" | "header">): string {
  const { applicationAddress, serviceId, sessionEndBlockHeight } = header;
  return `${operatorAddress} ${applicationAddress} ${serviceId} ${sessionEndBlockHeight}`;
}

const keyOf = (fields: Fields): string =>
  [
    fields.supplier_operator_address,
    fields.application_address,
    fields.service_id,
    fields.session_end_block_height,
  ].join(" ");

/** Attributes of an event; values are JSON. */
function fieldsOf(event: Fields): Fields {
  const attributes = Array.isArray(event.attributes) ? event.attributes.filter(isRecord) : [];
  return Object.fromEntries(
    attributes.flatMap(({ key, value }) => {
      if (typeof key !== "string" || typeof value !== "string") return [];
      try {
        return [[key, JSON.parse(value)]];
      } catch {
        return [[key, value]];
      }
    }),
  );
}

function upokt(value: unknown): bigint {
  const [, amount] = (typeof value === "string" ? /^(\d{1,39})(?:upokt)?$/.exec(value) : null) ?? [];
  return amount === undefined ? 0n : BigInt(amount);
}

function rewardsOf(fields: Fields): Record<string, bigint> {
  const rewards: Record<string, bigint> = {};
  const details = Array.isArray(fields.reward_distribution_detailed) ? fields.reward_distribution_detailed : [];
  for (const { recipient_address: recipient, op_reason: reason, amount } of details.filter(isRecord)) {
    if (typeof recipient !== "string" || typeof reason !== "string" || !SHAREHOLDER.test(reason)) continue;
    rewards[recipient] = (rewards[recipient] ?? 0n) + upokt(amount);
  }
  return rewards;
}

function lostBy(heightBlocks: bigint, name: string, fields: Fields): SessionOutcome | undefined {
  const common = { kind: "lost", heightBlocks, penaltyUpokt: 0n } as const;
  if (name === "EventClaimDiscarded") {
    return { ...common, why: "discarded", text: typeof fields.error === "string" ? fields.error : "" };
  }
  if (name !== "EventClaimExpired") return undefined;
  const isInvalid = fields.expiration_reason === "PROOF_INVALID" || fields.expiration_reason === 2;
  return isInvalid
    ? { ...common, why: "proof-invalid", text: "The chain found the proof of the claim to be wrong." }
    : { ...common, why: "proof-missing", text: "A proof was required, and no block of the proof window has it." };
}

/** Outcomes of all claims that a block settled, of its `finalize_block_events`. */
export function settlementsOf(heightBlocks: bigint, events: readonly Fields[]): Settlements {
  const outcomes = new Map<string, SessionOutcome>();
  const penalties = new Map<string, bigint>();
  for (const event of events) {
    if (typeof event.type !== "string" || !event.type.startsWith(PREFIX)) continue;
    const name = event.type.slice(PREFIX.length);
    const fields = fieldsOf(event);
    const key = keyOf(fields);
    if (name === "EventClaimSettled") {
      const settledUpokt = upokt(fields.settled_upokt);
      const claimedUpokt = upokt(fields.claimed_upokt);
      outcomes.set(key, { kind: "settled", heightBlocks, settledUpokt, claimedUpokt, rewards: rewardsOf(fields) });
    } else if (name === "EventSupplierSlashed") {
      penalties.set(key, (penalties.get(key) ?? 0n) + upokt(fields.proof_missing_penalty));
    } else {
      const lost = lostBy(heightBlocks, name, fields);
      if (lost !== undefined) outcomes.set(key, lost);
    }
  }
  for (const [key, penaltyUpokt] of penalties) {
    const outcome = outcomes.get(key);
    if (outcome?.kind === "lost") outcomes.set(key, { ...outcome, penaltyUpokt });
  }
  return outcomes;
}
