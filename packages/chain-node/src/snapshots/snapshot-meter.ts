import { type Metrics, noMetrics } from "@turnpike/base";
import { chainSnapshotHeight, chainSnapshotsTotal } from "../metrics.ts";

/** Counts snapshots of the state, as the code that makes them reports them. */
export class SnapshotMeter {
  readonly #metrics: Metrics;

  constructor({ metrics }: { readonly metrics?: Metrics } = {}) {
    this.#metrics = metrics ?? noMetrics;
    // A counter that begins with its first failure would not be seen to grow.
    this.#metrics.count(chainSnapshotsTotal, { outcome: "failed" }, 0);
  }

  /** Reports the newest snapshot of the folder when the node starts. */
  found(heightBlocks: bigint): void {
    this.#metrics.set(chainSnapshotHeight, Number(heightBlocks));
  }

  /** Reports a snapshot that was made. */
  made(heightBlocks: bigint): void {
    this.found(heightBlocks);
    this.#metrics.count(chainSnapshotsTotal, { outcome: "made" });
  }

  /** Reports a snapshot that could not be made. */
  failed(): void {
    this.#metrics.count(chainSnapshotsTotal, { outcome: "failed" });
  }
}
