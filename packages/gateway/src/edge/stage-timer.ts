import { type Clock, isAppError, type Metrics, noSpan, type Span } from "@turnpike/base";
import { gatewayStageInFlight, gatewayStageSeconds, gatewayStageTotal } from "../metrics/gateway-metrics.ts";

/** Counts, times and traces the runs of a pipeline's stages. */
export class StageTimer {
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  readonly #inFlight = new Map<string, number>();

  constructor({ clock, metrics }: { readonly clock: Clock; readonly metrics: Metrics }) {
    this.#clock = clock;
    this.#metrics = metrics;
  }

  /** Runs a stage. `outcome` names its result for metrics; what it throws is named by its code, or `INTERNAL`. */
  async run<T>(
    stage: string,
    parent: Span | undefined,
    work: () => T | Promise<T>,
    outcome: (result: T) => string,
  ): Promise<T> {
    const start = this.#clock.monotonicMs();
    const span = parent?.child(stage, "internal") ?? noSpan;
    let label = "INTERNAL";
    this.#addInFlight(stage, 1);
    try {
      const result = await work();
      label = outcome(result);
      return result;
    } catch (error) {
      if (isAppError(error)) label = error.code;
      throw error;
    } finally {
      this.#addInFlight(stage, -1);
      if (span !== noSpan) {
        span.set({ "turnpike.outcome": label });
        if (label === "INTERNAL") span.fail(label);
        span.end();
      }
      this.#metrics.count(gatewayStageTotal, { stage, outcome: label });
      this.#metrics.observe(gatewayStageSeconds, (this.#clock.monotonicMs() - start) / 1_000, { stage });
    }
  }

  #addInFlight(stage: string, by: 1 | -1): void {
    const count = (this.#inFlight.get(stage) ?? 0) + by;
    this.#inFlight.set(stage, count);
    this.#metrics.set(gatewayStageInFlight, count, { stage });
  }
}
