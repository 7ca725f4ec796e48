import type { Clock } from "@turnpike/base";
import type { SendPurpose } from "../transport/transport.ts";

interface ExtraRelaysOptions {
  /** Probes, comparisons and hedges, as a percentage of the relays for clients. */
  readonly percent: number;
}

/** Saved up at the most, and there at the start: each supplier of a first session is probed. */
const MOST_SAVED = 60;
/** What an idle service may spend: six a minute. */
const IDLE_PER_MS = 6 / 60_000;

/**
 * The relays of one service that are not for clients: the application pays for these too. What clients send earns a share of
 * them, and a trickle is free of that, so that an idle service is probed now and then.
 */
export class ExtraRelays {
  readonly #share: number;
  readonly #clock: Clock;
  #saved = MOST_SAVED;
  #atMs: number;

  constructor(options: ExtraRelaysOptions, modules: { readonly clock: Clock }) {
    this.#share = options.percent / 100;
    this.#clock = modules.clock;
    this.#atMs = modules.clock.monotonicMs();
  }

  /** True when a relay for this purpose may be sent; it is counted then. */
  acquire(purpose: SendPurpose): boolean {
    const nowMs = this.#clock.monotonicMs();
    this.#saved = Math.min(MOST_SAVED, this.#saved + (nowMs - this.#atMs) * IDLE_PER_MS);
    this.#atMs = nowMs;
    if (purpose === "client" || purpose === "retry") {
      this.#saved = Math.min(MOST_SAVED, this.#saved + this.#share);
      return true;
    }
    if (this.#saved < 1) return false;
    this.#saved -= 1;
    return true;
  }
}
