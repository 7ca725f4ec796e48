import { type Clock, type Log, type Metrics, systemClock } from "@turnpike/base";
import type { BlockMeter } from "@turnpike/chain";
import { paced, timerWait, type Wait } from "../engine/pacer.ts";
import { chainHalted } from "../metrics.ts";
import type { CometFacts } from "./comet-watch.ts";

export interface StandstillWatchOptions {
  /** Interval of the embedded engine's blocks; undefined under CometBFT, where it is taken from the blocks. */
  readonly blockIntervalMs: number | undefined;
}

export interface StandstillWatchModules {
  /** Must have the same clock. */
  readonly meter: Pick<BlockMeter, "newest" | "usualIntervalMs">;
  /** CometBFT's own facts; undefined with the embedded engine. */
  readonly comet: { readonly facts: CometFacts | undefined } | undefined;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock?: Clock;
  readonly wait?: Wait;
}

const EVERY_MS = 1_000;
const LEAST_MS = 30_000;
const INTERVALS = 10;

const LOOK_AT = {
  embedded:
    "the errors above: this process alone makes the blocks, and stops for want of room on the disk, or as the clock jumped",
  silent: "CometBFT: it does not answer on chain.cometRpcUrl; see that it runs, with --proxy_app as chain.abciAddress",
  alone:
    "the network: CometBFT has no peers; see p2p.laddr and p2p.persistent_peers, and that their machines are reached",
  behind: "CometBFT's log: it catches up and gets no blocks; see that its peers have them",
  votes:
    "the validators: blocks need more than two thirds of the voting power; see which are down or cut off, and start them",
} as const;

/** Says when no block comes for much longer than usual, and when the chain goes on. */
export class StandstillWatch implements AsyncDisposable {
  readonly #blockIntervalMs: number;
  readonly #meter: StandstillWatchModules["meter"];
  readonly #comet: StandstillWatchModules["comet"];
  readonly #metrics: Metrics;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #heightBlocks: bigint | undefined;
  /** Monotonic time of the newest block, or of the beginning. */
  #sinceMs: number;
  #isHalted = false;

  constructor(opts: StandstillWatchOptions, modules: StandstillWatchModules) {
    this.#blockIntervalMs = opts.blockIntervalMs ?? 0;
    this.#meter = modules.meter;
    this.#comet = modules.comet;
    this.#metrics = modules.metrics;
    this.#log = modules.log;
    this.#clock = modules.clock ?? systemClock;
    this.#sinceMs = this.#clock.monotonicMs();
    this.#heightBlocks = this.#meter.newest?.heightBlocks;
    this.#metrics.set(chainHalted, 0);
    const pace = { clock: this.#clock, wait: modules.wait ?? timerWait };
    this.#running = paced(EVERY_MS, async () => this.#look(), this.#stop.signal, pace);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  #look(): void {
    const { newest } = this.#meter;
    if (newest !== undefined && newest.heightBlocks !== this.#heightBlocks) {
      if (this.#isHalted) this.#goesOn(newest.heightBlocks, newest.hadMs - this.#sinceMs);
      this.#heightBlocks = newest.heightBlocks;
      this.#sinceMs = newest.hadMs;
      return;
    }
    const stoodMs = this.#clock.monotonicMs() - this.#sinceMs;
    if (!this.#isHalted && stoodMs > this.#limitMs()) this.#stands(stoodMs);
  }

  #limitMs(): number {
    const usualMs = Math.max(this.#blockIntervalMs, this.#meter.usualIntervalMs() ?? 0);
    return Math.max(LEAST_MS, INTERVALS * usualMs);
  }

  #stands(stoodMs: number): void {
    this.#isHalted = true;
    this.#metrics.set(chainHalted, 1);
    const facts = this.#comet?.facts;
    this.#log.warn(
      {
        heightBlocks: `${this.#heightBlocks ?? 0n}`,
        since: new Date(this.#clock.nowMs() - stoodMs).toISOString(),
        stoodSeconds: seconds(stoodMs),
        ...(facts === undefined
          ? {}
          : { peers: facts.peers, validators: facts.validators, catchingUp: facts.isCatchingUp }),
        lookAt: LOOK_AT[this.#cause(facts)],
      },
      "the chain stands still: no block came",
    );
  }

  #cause(facts: CometFacts | undefined): keyof typeof LOOK_AT {
    if (this.#comet === undefined) return "embedded";
    if (facts === undefined) return "silent";
    if (facts.isCatchingUp) return facts.peers === 0 ? "alone" : "behind";
    return facts.peers === 0 && facts.validators !== 1 ? "alone" : "votes";
  }

  #goesOn(heightBlocks: bigint, stoodMs: number): void {
    this.#isHalted = false;
    this.#metrics.set(chainHalted, 0);
    this.#log.info({ heightBlocks: `${heightBlocks}`, stoodSeconds: seconds(stoodMs) }, "the chain goes on");
  }
}

const seconds = (timeMs: number): number => Math.round(timeMs / 1000);
