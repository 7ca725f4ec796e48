import type { Metrics } from "@turnpike/base";
import { relayInFlightBytes } from "../metrics.ts";

/** The bytes that all responses together may hold while they arrive. */
export class ByteBudget {
  readonly #maxBytes: number;
  readonly #metrics: Metrics;
  #held = 0;

  constructor(options: { readonly maxBytes: number }, modules: { readonly metrics: Metrics }) {
    this.#maxBytes = options.maxBytes;
    this.#metrics = modules.metrics;
  }

  /** False when there are not so many left. */
  acquire(bytes: number): boolean {
    if (this.#held + bytes > this.#maxBytes) return false;
    this.#held += bytes;
    this.#metrics.set(relayInFlightBytes, this.#held);
    return true;
  }

  release(bytes: number): void {
    if (bytes === 0) return;
    this.#held -= bytes;
    this.#metrics.set(relayInFlightBytes, this.#held);
  }
}
