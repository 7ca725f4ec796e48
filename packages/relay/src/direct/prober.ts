import type { Target } from "./target.ts";

/** Options of {@link createProber}. */
export interface ProberOptions {
  readonly intervalMs: number;
  readonly maxAtOnce: number;
}

/** What the prober works with. */
export interface ProberModules {
  readonly targets: readonly Target[];
  /** A number of [0, 1). */
  readonly random: () => number;
  /** Ends all probes. */
  readonly signal: AbortSignal;
}

/** Probes all targets again and again. */
export interface Prober extends AsyncDisposable {
  /** Resolves when each target was probed once. */
  start(): Promise<void>;
}

/** Probes each target at its own, jittered times, so many at once at most. */
export function createProber(options: ProberOptions, modules: ProberModules): Prober {
  const { targets, random, signal } = modules;
  const timers = new Map<Target, NodeJS.Timeout>();
  const waiting: (() => void)[] = [];
  const running = new Set<Promise<void>>();
  let started: Promise<void> | undefined;
  let active = 0;

  const run = async (target: Target): Promise<void> => {
    if (active >= options.maxAtOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    active++;
    try {
      if (!signal.aborted) await target.probe(signal);
    } finally {
      active--;
      waiting.shift()?.();
    }
    if (signal.aborted) return;
    const timer = setTimeout(() => void track(target), options.intervalMs * (0.8 + 0.4 * random()));
    timer.unref();
    timers.set(target, timer);
  };
  const track = (target: Target): Promise<void> => {
    const task = run(target).finally(() => running.delete(task));
    running.add(task);
    return task;
  };

  return {
    start() {
      started ??= Promise.all(targets.filter((target) => target.hasProbe).map(track)).then(() => undefined);
      return started;
    },
    async [Symbol.asyncDispose]() {
      for (const timer of timers.values()) clearTimeout(timer);
      while (running.size > 0) await Promise.all(running);
      for (const timer of timers.values()) clearTimeout(timer);
    },
  };
}
