import { type Clock, systemClock } from "./clock.ts";

/** Time between two lines about one lasting fault. */
const EVERY_MS = 60_000;

/** Decides which failures of one thing are logged: the first one, then one a minute until it has recovered. */
export class FaultLogThrottle {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #loggedAtMs: number | undefined;

  constructor(clock: Pick<Clock, "monotonicMs"> = systemClock) {
    this.#clock = clock;
  }

  /** True when this failure is to be logged. */
  onFailure(): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (this.#loggedAtMs !== undefined && nowMs - this.#loggedAtMs < EVERY_MS) return false;
    this.#loggedAtMs = nowMs;
    return true;
  }

  /** True when a failure was logged since the last recovery, so that this recovery is to be logged. */
  onRecovery(): boolean {
    const wasLogged = this.#loggedAtMs !== undefined;
    this.#loggedAtMs = undefined;
    return wasLogged;
  }
}
