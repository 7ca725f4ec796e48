import { type Metrics, noMetrics } from "@turnpike/base";
import { chainSnapshotHeight, chainSnapshotsTotal } from "../metrics.ts";

/** Counts snapshots of the state. Whoever makes them tells it. */
export class SnapshotMeter {
  readonly #metrics: Metrics;

  constructor({ metrics }: { readonly metrics?: Metrics } = {}) {
    this.#metrics = metrics ?? noMetrics;
    // A counter that begins with its first failure would not be seen to grow.
    this.#metrics.count(chainSnapshotsTotal, { outcome: "failed" }, 0);
  }

  /** Tells of the newest snapshot that is there when the node starts. */
  found(heightBlocks: bigint): void {
    this.#metrics.set(chainSnapshotHeight, Number(heightBlocks));
  }

  /** Tells of a snapshot that was made. */
  made(heightBlocks: bigint): void {
    this.found(heightBlocks);
    this.#metrics.count(chainSnapshotsTotal, { outcome: "made" });
  }

  /** Tells of a snapshot that could not be made. */
  failed(): void {
    this.#metrics.count(chainSnapshotsTotal, { outcome: "failed" });
  }
}
