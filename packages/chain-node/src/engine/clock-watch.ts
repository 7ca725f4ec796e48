import { AppError, type Clock, type Log } from "@turnpike/base";

export interface ClockWatchOptions {
  /** Time of the newest block, nanoseconds since 1970; undefined before the first. */
  readonly newestTimeNs: bigint | undefined;
}

export interface ClockWatchModules {
  readonly clock: Clock;
  /** Milliseconds that pass whatever the clock is set to, also while the machine sleeps. */
  readonly uptimeMs: () => number;
  readonly log: Log;
}

/** A jump forward of more than this, while the process runs, is not taken into a block. */
export const MAX_JUMP_MS = 3_600_000;
/** How far the clock may be behind the newest block before a warning. */
const BEHIND_MS = 5_000;

const textOf = (timeMs: number): string =>
  Math.abs(timeMs) <= 8.64e15 ? new Date(timeMs).toISOString() : `${timeMs} ms since 1970`;

/**
 * Watches the clock that blocks are made by. Their times never go back, so a clock that is behind only makes them stand
 * almost still, and is logged. A clock that jumps far ahead would set the chain's time for good: every later block is
 * later still. So while the process runs, the clock must not be further ahead of the time that has passed than
 * {@link MAX_JUMP_MS}. At the start it is taken as it is, as the time that the node was stopped is not known. A machine that was paused
 * from outside, as a virtual one, sees such a jump too: it cannot be distinguished from a clock that was set.
 */
export class ClockWatch {
  readonly #clock: Clock;
  readonly #uptimeMs: () => number;
  readonly #log: Log;
  // Added to the uptime, this is what the clock would show had it not been set.
  #offsetMs: number;
  #isBehind = false;
  #isAhead = false;

  constructor({ newestTimeNs }: ClockWatchOptions, { clock, uptimeMs, log }: ClockWatchModules) {
    this.#clock = clock;
    this.#uptimeMs = uptimeMs;
    this.#log = log;
    const nowMs = clock.nowMs();
    const newestMs = newestTimeNs === undefined ? nowMs : Number(newestTimeNs / 1_000_000n);
    // A clock that is behind the newest block is wrong already: to be right again is no jump.
    this.#offsetMs = Math.max(nowMs, newestMs) - uptimeMs();
    if (nowMs - newestMs > MAX_JUMP_MS) {
      const [clockTime, newestBlock] = [textOf(nowMs), textOf(newestMs)];
      log.warn(
        { clockTime, newestBlock },
        "the next block is over an hour later than the newest one: the node stood, or the clock is ahead",
      );
    }
  }

  /**
   * The time now, for a block after one of this time; milliseconds since 1970.
   * @throws AppError CHAIN_CLOCK when the clock has jumped ahead since it was last right
   */
  nowMs(newestTimeNs: bigint): number {
    const nowMs = this.#clock.nowMs();
    const passedMs = this.#offsetMs + this.#uptimeMs();
    if (nowMs - passedMs > MAX_JUMP_MS) {
      this.#isAhead = true;
      throw new AppError("CHAIN_CLOCK", {
        message: `The clock jumped ahead to ${textOf(nowMs)} while this process ran; by the time that has passed it is ${textOf(passedMs)}. No block is made, because the chain's time would stay ahead for good: set the clock right. If the new time is the right one, start the node again.`,
      });
    }
    if (this.#isAhead) this.#log.info({ clockTime: textOf(nowMs) }, "the clock is right again");
    this.#isAhead = false;
    // Set ahead by a little, it is the measure from now on. Set back it is not: to be right again would be a jump.
    if (nowMs > passedMs) this.#offsetMs += nowMs - passedMs;
    this.#compare(nowMs, Number(newestTimeNs / 1_000_000n));
    return nowMs;
  }

  #compare(nowMs: number, newestMs: number): void {
    const isBehind = newestMs - nowMs > (this.#isBehind ? 0 : BEHIND_MS);
    if (isBehind === this.#isBehind) return;
    this.#isBehind = isBehind;
    const times = { clockTime: textOf(nowMs), newestBlock: textOf(newestMs) };
    if (isBehind) {
      this.#log.warn(
        times,
        "the clock is behind the newest block: blocks go on a millisecond apart until it has caught up; set the clock right",
      );
    } else this.#log.info(times, "the clock has caught up with the newest block");
  }
}
