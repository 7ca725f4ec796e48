import type { Clock } from "@turnpike/base";

/** A rate of relays, with a second's worth at once. */
export class RelayRate {
  readonly #perSecond: number;
  readonly #clock: Clock;
  #left: number;
  #atMs: number;

  constructor(perSecond: number, clock: Clock) {
    this.#perSecond = perSecond;
    this.#clock = clock;
    this.#left = perSecond;
    this.#atMs = clock.monotonicMs();
  }

  /** False when a relay comes too early. */
  acquire(): boolean {
    const now = this.#clock.monotonicMs();
    this.#left = Math.min(this.#perSecond, this.#left + ((now - this.#atMs) * this.#perSecond) / 1_000);
    this.#atMs = now;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
