import { type Chance, chanceOf } from "@turnpike/testkit/chance";

/** Faults that a story can go without, to find which of them a failure needs. */
export const STORY_FAULTS = [
  "kills",
  "disk faults",
  "network faults",
  "node faults",
  "node lies",
  "hostile seller",
  "price changes",
  "clock differences",
  "calls at once",
  "aborts",
] as const;
export type StoryFault = (typeof STORY_FAULTS)[number];

/** Values that are drawn once for a story. */
export interface StorySetting {
  readonly nodes: number;
  /** Clock offset of the host from the simulation's time. */
  readonly hostOffsetMs: number;
  /** Clock offset of the chain from the simulation's time. */
  readonly chainOffsetMs: number;
  readonly hostility: number;
  readonly units: bigint;
  readonly priceChanges: number;
  readonly totalUnits: bigint | undefined;
  readonly maxTimeoutSeconds: number;
  readonly retryForMs: number;
  readonly requests: number;
  readonly activities: number;
  readonly isFaultyNetwork: boolean;
  readonly diskFaultShare: number;
  readonly hasNodeFaults: boolean;
  readonly hasNodeLies: boolean;
  /** Share of processes that are killed. */
  readonly killShare: number;
  readonly hasAborts: boolean;
  readonly hasCallsAtOnce: boolean;
}

const MINUTE_MS = 60_000;

const between = (chance: Chance, maximum: number): number => chance.below(2 * maximum + 1) - maximum;

function hostOffset(chance: Chance, hasNodes: boolean): number {
  // Without nodes the client's own clock decides, within a minute of the chain's.
  if (!hasNodes) return between(chance, 20_000);
  const maximum = chance.weighted([
    [82, 3_000],
    [10, 90_000],
    [5, 20 * MINUTE_MS],
    [3, 180 * MINUTE_MS],
  ]);
  return between(chance, maximum);
}

/** Draws the setting of a story's seed. */
export function drawSetting(seed: string, without: ReadonlySet<StoryFault>, maxActivities: number): StorySetting {
  const chance = chanceOf(`${seed}/setting`);
  const has = (fault: StoryFault, share: number): boolean => chance.often(share) && !without.has(fault);
  const nodes = chance.weighted([
    [70, 2],
    [15, 1],
    [15, 0],
  ]);
  const units = chance.pick([5_000n, 5_000n, 100n, 20_000n, 49_999n]);
  const hostOffsetMs = hostOffset(chance, nodes > 0);
  const chainOffsetMs = between(chance, 15_000);
  const hasClocks = has("clock differences", 1);
  const hasNodeFaults = has("node faults", 0.75);
  return {
    nodes,
    hostOffsetMs: hasClocks ? hostOffsetMs : 0,
    chainOffsetMs: hasClocks ? chainOffsetMs : 0,
    hostility: has("hostile seller", 1) ? chance.pick([0, 0.3, 0.6, 0.8, 1]) : 0,
    units,
    priceChanges: has("price changes", 0.5) ? 0.3 : 0,
    totalUnits: chance.often(0.7) ? units * BigInt(2 + chance.below(14)) : undefined,
    maxTimeoutSeconds: chance.pick([60, 60, 300, 3_600]),
    retryForMs: chance.pick([0, 10_000, 120_000]),
    requests: 1 + chance.below(3),
    activities: Math.min(maxActivities, 5 + chance.below(14)),
    isFaultyNetwork: has("network faults", 0.6),
    diskFaultShare: has("disk faults", 0.15) ? 0.05 : 0,
    hasNodeFaults,
    hasNodeLies: nodes > 1 && has("node lies", 0.6),
    killShare: has("kills", 0.7) ? 0.7 : 0,
    hasAborts: has("aborts", 0.5),
    hasCallsAtOnce: has("calls at once", 0.6),
  };
}
