import type { StoredSession } from "./session-json.ts";
import type { LossReason } from "./types.ts";

/** Relays by how far they came. Each number is a part of the one before, but for those that are not mined. */
export interface RelaySums {
  readonly served: bigint;
  /** Not mined: the difficulty lets one relay in several stand for all. */
  readonly belowDifficulty: bigint;
  /** Not mined: the same bytes again. */
  readonly repeated: bigint;
  readonly mined: bigint;
  /** In a claim that was seen on the chain. */
  readonly claimed: bigint;
  /** In a claim whose proof was seen on the chain, or that needs none. */
  readonly proven: bigint;
  /** In a claim that was settled. */
  readonly settled: bigint;
}

/** What sessions were worth, and what became of it; upokt. */
export interface MoneySums {
  /** By the sessions' parameters, for everything that was mined and sealed. */
  readonly expected: bigint;
  /** Charged to applications. */
  readonly settled: bigint;
  /** Paid to those who share the supplier's revenue. */
  readonly received: bigint;
  readonly fees: bigint;
  readonly penalties: bigint;
}

/** What was lost for one reason. */
export interface LossSums {
  readonly sessions: number;
  readonly relays: bigint;
  readonly expectedUpokt: bigint;
}

/** Sums over sessions. */
export interface SupplySums {
  readonly sessions: number;
  readonly relays: RelaySums;
  readonly upokt: MoneySums;
  readonly lost: Readonly<Partial<Record<LossReason, LossSums>>>;
}

/** Sums over nothing. */
export const NO_SUMS: SupplySums = {
  sessions: 0,
  relays: { served: 0n, belowDifficulty: 0n, repeated: 0n, mined: 0n, claimed: 0n, proven: 0n, settled: 0n },
  upokt: { expected: 0n, settled: 0n, received: 0n, fees: 0n, penalties: 0n },
  lost: {},
};

/** The sums of one session. */
export function sumsOf({ state, counts }: Pick<StoredSession, "state" | "counts">): SupplySums {
  const { claim, outcome, feesUpokt } = state;
  const relays = claim?.relays ?? 0n;
  const isClaimed = state.claimedHeightBlocks !== undefined || outcome?.kind === "settled";
  const isProven = isClaimed && (state.provenHeightBlocks !== undefined || state.isProofRequired === false);
  const settled = outcome?.kind === "settled" ? outcome : undefined;
  const lost = outcome?.kind === "lost" ? outcome : undefined;
  const expected = claim?.expectedUpokt ?? 0n;
  return {
    sessions: 1,
    relays: {
      served: BigInt(counts.served),
      belowDifficulty: BigInt(counts.belowDifficulty),
      repeated: BigInt(counts.repeated),
      mined: BigInt(counts.mined),
      claimed: isClaimed ? relays : 0n,
      proven: isProven || settled !== undefined ? relays : 0n,
      settled: settled === undefined ? 0n : relays,
    },
    upokt: {
      expected,
      settled: settled?.settledUpokt ?? 0n,
      received: Object.values(settled?.rewards ?? {}).reduce((sum, amount) => sum + amount, 0n),
      fees: feesUpokt,
      penalties: lost?.penaltyUpokt ?? 0n,
    },
    lost: lost === undefined ? {} : { [lost.why]: { sessions: 1, relays, expectedUpokt: expected } },
  };
}

function addLost(a: SupplySums["lost"], b: SupplySums["lost"]): SupplySums["lost"] {
  const sums = { ...a };
  for (const [why, more] of Object.entries(b) as [LossReason, LossSums][]) {
    const { sessions = 0, relays = 0n, expectedUpokt = 0n } = sums[why] ?? {};
    sums[why] = {
      sessions: sessions + more.sessions,
      relays: relays + more.relays,
      expectedUpokt: expectedUpokt + more.expectedUpokt,
    };
  }
  return sums;
}

/** Both sums together. */
export function addSums(a: SupplySums, b: SupplySums): SupplySums {
  return {
    sessions: a.sessions + b.sessions,
    relays: {
      served: a.relays.served + b.relays.served,
      belowDifficulty: a.relays.belowDifficulty + b.relays.belowDifficulty,
      repeated: a.relays.repeated + b.relays.repeated,
      mined: a.relays.mined + b.relays.mined,
      claimed: a.relays.claimed + b.relays.claimed,
      proven: a.relays.proven + b.relays.proven,
      settled: a.relays.settled + b.relays.settled,
    },
    upokt: {
      expected: a.upokt.expected + b.upokt.expected,
      settled: a.upokt.settled + b.upokt.settled,
      received: a.upokt.received + b.upokt.received,
      fees: a.upokt.fees + b.upokt.fees,
      penalties: a.upokt.penalties + b.upokt.penalties,
    },
    lost: addLost(a.lost, b.lost),
  };
}
