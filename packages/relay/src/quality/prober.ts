import { createHash } from "node:crypto";
import type { Clock } from "@turnpike/base";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import type { ProbeNeed } from "./supplier-quality.ts";

/** What distinguishes back-ends, for {@link probeKey}. */
export interface ProbedBackend {
  /** See `SupplierEndpoint`. */
  readonly backendKey: string;
  readonly rpcType: RpcType;
  /** The calls of the probe, in order. */
  readonly calls: readonly BackendCall[];
}

/** One short text for all that are asked the same of the same back-end: way of speaking and calls. */
export function probeKey({ backendKey, rpcType, calls }: ProbedBackend): string {
  const asked = calls.map(({ verb, path: at, body, headers: own = {} }) => [
    verb,
    at,
    body === undefined ? "" : Buffer.from(body).toString("base64"),
    Object.entries(own),
  ]);
  const text = JSON.stringify([backendKey, rpcType, asked]);
  return createHash("sha256").update(text).digest("base64url");
}

/** A supplier that is probed. `S`: what an exchange brings back. */
export interface ProbeTarget<S> {
  /** See {@link probeKey}. Those with equal keys share their exchanges. */
  readonly probeKey: string;
  /** Sends the calls of the probe, one after the other, until one gets no answer. Never rejects. */
  exchangeProbe(signal: AbortSignal): Promise<S>;
  /** Takes what came back, of its own exchange or of another's with an equal key. */
  readProbe(seen: S): void;
  /** How soon it should be probed again. */
  probeNeed(nowMs: number): ProbeNeed;
}

/** All times are 20 % more or less, at random. */
export interface ProberOptions {
  /** Time between two probes of one back-end. */
  readonly intervalMs: number;
  /** The first of those that fail are probed again after this time, then after twice as long... */
  readonly firstRetryMs: number;
  /** ...but at the latest after this. */
  readonly maxRetryMs: number;
  /** How many times rarer those are probed whose health calls show, or that get no calls. */
  readonly rareFactor: number;
  /** Probes that run at once. Those that fail get half of it at most, so that the dead do not hold up the living. */
  readonly maxAtOnce: number;
}

/** Every 10 s, 30 s where that is enough, and 1 to 60 s where it fails. */
export const DEFAULT_PROBER: ProberOptions = {
  intervalMs: 10_000,
  firstRetryMs: 1_000,
  maxRetryMs: 60_000,
  rareFactor: 3,
  maxAtOnce: 8,
};

interface ProberModules<S> {
  /** Those that are there from the start. */
  readonly targets: readonly ProbeTarget<S>[];
  readonly clock: Clock;
  /** A number of [0, 1). */
  readonly random: () => number;
  /** Ends all probes. */
  readonly signal: AbortSignal;
}

interface Group<S> {
  readonly targets: ProbeTarget<S>[];
  running: Promise<void> | undefined;
  timer: NodeJS.Timeout | undefined;
  /** Probes after which it still failed, in a row. */
  failures: number;
}

interface Waiting {
  readonly group: unknown;
  readonly isFailing: boolean;
  readonly resolve: () => void;
}

/** Probes all back-ends again and again. Nothing is sent before `start` or `probe`. */
export class Prober<S> implements AsyncDisposable {
  readonly #options: ProberOptions;
  readonly #modules: ProberModules<S>;
  readonly #groups = new Map<string, Group<S>>();
  readonly #waiting: Waiting[] = [];
  #active = 0;
  #activeFailing = 0;
  #started: Promise<void> | undefined;

  constructor(options: ProberOptions, modules: ProberModules<S>) {
    this.#options = options;
    this.#modules = modules;
    for (const target of modules.targets) this.add(target);
  }

  /** A target that is there from now on; probed soon, once this was started. */
  add(target: ProbeTarget<S>): void {
    const { probeKey } = target;
    let group = this.#groups.get(probeKey);
    if (group === undefined) {
      group = { targets: [], running: undefined, timer: undefined, failures: 0 };
      this.#groups.set(probeKey, group);
    }
    group.targets.push(target);
    // Also when its group was probed a moment ago: of itself nothing is known.
    if (this.#started !== undefined) void this.#run(group);
  }

  /** A target that is there no more. */
  remove(target: ProbeTarget<S>): void {
    const group = this.#groups.get(target.probeKey);
    const at = group?.targets.indexOf(target) ?? -1;
    if (group === undefined || at === -1) return;
    group.targets.splice(at, 1);
    if (group.targets.length > 0) return;
    clearTimeout(group.timer);
    this.#groups.delete(target.probeKey);
  }

  /** Resolves when each back-end was probed once. */
  start(): Promise<void> {
    this.#started ??= Promise.all([...this.#groups.values()].map((group) => this.#run(group))).then(() => undefined);
    return this.#started;
  }

  /** Probes a target's back-end now; joins a probe that runs. May be called before `start`. Never rejects. */
  probe(target: ProbeTarget<S>): Promise<void> {
    const group = this.#groups.get(target.probeKey);
    if (group === undefined) return Promise.resolve();
    // A call waits for it: it needs no place, and leaves the queue if it stands there.
    const at = this.#waiting.findIndex((one) => one.group === group);
    if (at !== -1) this.#admit(at);
    return this.#run(group, true);
  }

  #run(group: Group<S>, isUrgent = false): Promise<void> {
    if (this.#modules.signal.aborted) return Promise.resolve();
    clearTimeout(group.timer);
    group.running ??= this.#probe(group, isUrgent).finally(() => {
      group.running = undefined;
      if (this.#started !== undefined && group.targets.length > 0) this.#plan(group);
    });
    return group.running;
  }

  async #probe(group: Group<S>, isUrgent: boolean): Promise<void> {
    const { signal } = this.#modules;
    const isFailing = group.failures > 1;
    if (!isUrgent) await this.#enter(group, isFailing);
    try {
      if (signal.aborted) return;
      const seen = await group.targets[0]?.exchangeProbe(signal);
      if (seen === undefined || signal.aborted) return;
      for (const target of group.targets) target.readProbe(seen);
    } finally {
      if (!isUrgent) this.#leave(isFailing);
    }
  }

  #plan(group: Group<S>): void {
    const { signal, random, clock } = this.#modules;
    if (signal.aborted) return;
    const { intervalMs, firstRetryMs, maxRetryMs, rareFactor } = this.#options;
    const nowMs = clock.monotonicMs();
    const needs = group.targets.map((target) => target.probeNeed(nowMs));
    let delayMs = intervalMs;
    if (needs.includes("soon")) {
      delayMs = Math.min(maxRetryMs, firstRetryMs * 2 ** group.failures);
      group.failures = Math.min(group.failures + 1, 16);
    } else {
      group.failures = 0;
      if (!needs.includes("normal")) delayMs = intervalMs * rareFactor;
    }
    group.timer = setTimeout(() => void this.#run(group), delayMs * (0.8 + 0.4 * random()));
    group.timer.unref();
  }

  #mayEnter(isFailing: boolean): boolean {
    const { maxAtOnce } = this.#options;
    return this.#active < maxAtOnce && (!isFailing || this.#activeFailing < Math.max(1, Math.floor(maxAtOnce / 2)));
  }

  async #enter(group: Group<S>, isFailing: boolean): Promise<void> {
    const mayEnter = this.#mayEnter(isFailing);
    const entered = new Promise<void>((resolve) => this.#waiting.push({ group, isFailing, resolve }));
    if (mayEnter) this.#admit(this.#waiting.length - 1);
    await entered;
  }

  #admit(at: number): void {
    const [next] = this.#waiting.splice(at, 1);
    if (next === undefined) return;
    this.#active++;
    if (next.isFailing) this.#activeFailing++;
    next.resolve();
  }

  #leave(isFailing: boolean): void {
    this.#active--;
    if (isFailing) this.#activeFailing--;
    // Thousands may wait: who is first is asked only while there is a place.
    while (this.#mayEnter(false)) {
      const at = this.#waiting.findIndex((one) => this.#mayEnter(one.isFailing));
      if (at === -1) return;
      this.#admit(at);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const groups = [...this.#groups.values()];
    for (const { timer } of groups) clearTimeout(timer);
    await Promise.all(groups.map(async ({ running }) => running));
    for (const { timer } of groups) clearTimeout(timer);
  }
}
