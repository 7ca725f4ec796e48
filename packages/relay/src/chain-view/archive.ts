import type { BlockRef } from "../families/method-traits.ts";

/** What a call asks of a supplier's history: state at a block (pruned soon by most nodes), or blocks and their events. */
export type HistoryKind = "state" | "data";

/** Heights that a call needs. */
export interface NeededHeights {
  readonly lowestBlocks: number;
  readonly highestBlocks: number;
}

/** What is known of an operator's history at a height. */
export type Holding = "has" | "lacks" | "unknown";

interface ArchiveOptions {
  /** Heights this close to the tip say nothing about history: all nodes have them, or are behind. */
  readonly recentBlocks: number;
  /** What was learned counts for so long: nodes are resynced, and pruned. */
  readonly maxAgeMs: number;
}

/** Values that suit nodes which keep 128 blocks of state. */
export const archiveDefaults: ArchiveOptions = { recentBlocks: 128, maxAgeMs: 1_800_000 };

interface Known {
  lowestHadBlocks: number;
  hadAtMs: number;
  highestLackedBlocks: number;
  lackedAtMs: number;
}

const MAX_KNOWN = 256;
const STATE =
  /^(?:eth_(?:call|estimateGas|createAccessList|getBalance|getCode|getStorageAt|getTransactionCount|getProof|simulateV1)|debug_|trace_|arbtrace_|abci_query$|query$|EXPERIMENTAL_(?:changes|view)|GET \/cosmos\/(?!base\/tendermint|tx\/)|GET \/(?:cosmwasm|ibc)\/)/;

/** Which kind of history an operation reads. */
export function historyKindOf(operation: string): HistoryKind {
  return STATE.test(operation) ? "state" : "data";
}

/**
 * The lowest and the highest height that a call needs; undefined when it names none. Tags other than `earliest` are the
 * tip, and hashes may be at any height.
 */
export function neededHeights(refs: readonly BlockRef[], tipBlocks: number): NeededHeights | undefined {
  let lowestBlocks = Number.POSITIVE_INFINITY;
  let highestBlocks = -1;
  for (const ref of refs) {
    if ("hash" in ref) continue;
    const height = "height" in ref ? ref.height : ref.tag === "earliest" ? 0 : tipBlocks;
    lowestBlocks = Math.min(lowestBlocks, height);
    highestBlocks = Math.max(highestBlocks, height);
  }
  return highestBlocks < 0 ? undefined : { lowestBlocks, highestBlocks };
}

/** How far back operators of one service can see, as their answers show. Times are monotonic milliseconds. */
export class Archive {
  readonly #options: ArchiveOptions;
  readonly #known = new Map<string, Known>();

  constructor(options: Partial<ArchiveOptions> = {}) {
    this.#options = { ...archiveDefaults, ...options };
  }

  /** True when a height is so far behind the tip that not every node has it. */
  isOld(heightBlocks: number, tipBlocks: number | undefined): boolean {
    return tipBlocks !== undefined && heightBlocks < tipBlocks - this.#options.recentBlocks;
  }

  /** An operator answered a call that needs this height. */
  had(operator: string, kind: HistoryKind, heightBlocks: number, tipBlocks: number | undefined, nowMs: number): void {
    if (!this.isOld(heightBlocks, tipBlocks)) return;
    const known = this.#of(operator, kind);
    if (heightBlocks <= known.lowestHadBlocks || this.#isStale(known.hadAtMs, nowMs)) {
      known.lowestHadBlocks = heightBlocks;
      known.hadAtMs = nowMs;
    }
    // The newer fact counts. It is removed here, since what is lacked is looked up first.
    known.highestLackedBlocks = Math.min(known.highestLackedBlocks, heightBlocks - 1);
  }

  /** An operator said that it has no state or block of this height. */
  lacked(
    operator: string,
    kind: HistoryKind,
    heightBlocks: number,
    tipBlocks: number | undefined,
    nowMs: number,
  ): void {
    if (!this.isOld(heightBlocks, tipBlocks)) return;
    const known = this.#of(operator, kind);
    if (heightBlocks >= known.highestLackedBlocks || this.#isStale(known.lackedAtMs, nowMs)) {
      known.highestLackedBlocks = heightBlocks;
      known.lackedAtMs = nowMs;
    }
  }

  /** What an operator is known to hold at a height; ask it for heights that {@link isOld} says so of. */
  holding(operator: string, kind: HistoryKind, heightBlocks: number, nowMs: number): Holding {
    const known = this.#known.get(`${kind} ${operator}`);
    if (known === undefined) return "unknown";
    if (heightBlocks <= known.highestLackedBlocks && !this.#isStale(known.lackedAtMs, nowMs)) return "lacks";
    return heightBlocks >= known.lowestHadBlocks && !this.#isStale(known.hadAtMs, nowMs) ? "has" : "unknown";
  }

  /** False when an operator is known to lack a height. */
  mayHave(operator: string, kind: HistoryKind, heightBlocks: number, nowMs: number): boolean {
    return this.holding(operator, kind, heightBlocks, nowMs) !== "lacks";
  }

  #isStale(atMs: number, nowMs: number): boolean {
    return nowMs - atMs > this.#options.maxAgeMs;
  }

  #of(operator: string, kind: HistoryKind): Known {
    const key = `${kind} ${operator}`;
    const found = this.#known.get(key);
    if (found !== undefined) return found;
    const oldest = this.#known.size >= MAX_KNOWN ? this.#known.keys().next().value : undefined;
    if (oldest !== undefined) this.#known.delete(oldest);
    const known: Known = {
      lowestHadBlocks: Number.POSITIVE_INFINITY,
      hadAtMs: Number.NEGATIVE_INFINITY,
      highestLackedBlocks: -1,
      lackedAtMs: Number.NEGATIVE_INFINITY,
    };
    this.#known.set(key, known);
    return known;
  }
}
