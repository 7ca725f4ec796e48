import type { Clock, Labels, Log, MetricSpec, Metrics } from "@turnpike/base";

const sample = ({ name }: MetricSpec, labels: Labels = {}): string =>
  [name.replace("turnpike_chain_", ""), ...Object.values(labels)].join(" ");

/** Metrics that a test reads: by name without its beginning, and the labels' values behind it. */
export class KeptMetrics implements Metrics {
  readonly values = new Map<string, number>();
  /** Observations of histograms. */
  readonly observed = new Map<string, number[]>();

  count(spec: MetricSpec, labels?: Labels, by = 1): void {
    const key = sample(spec, labels);
    this.values.set(key, (this.values.get(key) ?? 0) + by);
  }

  set(spec: MetricSpec, value: number, labels?: Labels): void {
    this.values.set(sample(spec, labels), value);
  }

  observe(spec: MetricSpec, value: number, labels?: Labels): void {
    const key = sample(spec, labels);
    this.observed.set(key, [...(this.observed.get(key) ?? []), value]);
  }

  remove(spec: MetricSpec, labels: Labels): void {
    this.values.delete(sample(spec, labels));
  }

  /** Values of these samples, undefined where there is none. */
  read(...keys: readonly string[]): (number | undefined)[] {
    return keys.map((key) => this.values.get(key));
  }
}

/** Time that a test moves, with timers of one waiter. */
export class ManualTime implements Clock {
  #nowMs = Date.UTC(2026, 10, 22);
  #waiting: { readonly timeMs: number; readonly go: () => void } | undefined;
  #waits: (() => void) | undefined;

  nowMs(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  readonly wait = (timeMs: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      this.#waiting = { timeMs, go: resolve };
      this.#waits?.();
    });

  /** Waits until the waiter waits. */
  async idle(): Promise<void> {
    if (this.#waiting !== undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waits = resolve;
    await promise;
  }

  /** Lets time go on until the waiter has had at least so much of it, and waits again. */
  async pass(timeMs: number): Promise<void> {
    const untilMs = this.#nowMs + timeMs;
    while (this.#nowMs < untilMs) {
      await this.idle();
      const waiting = this.#waiting;
      this.#waiting = undefined;
      this.#nowMs += Math.max(1, waiting?.timeMs ?? 0);
      waiting?.go();
      await this.idle();
    }
  }
}

/** One line of a log. */
export interface Line {
  readonly level: "warn" | "info" | "error";
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A log whose lines a test reads; debug lines are left out. */
export function keptLog(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const at =
    (level: Line["level"]) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      lines.push({ level, message, fields });
    };
  const log: Log = { debug() {}, info: at("info"), warn: at("warn"), error: at("error"), child: () => log };
  return { log, lines };
}
