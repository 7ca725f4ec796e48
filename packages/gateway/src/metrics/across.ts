import { isRecord } from "@turnpike/base";
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, Registry } from "prom-client";
import { Cells, type CellsDump, type IsNamed, type MetricsDump } from "./cells.ts";
import { asMetric } from "./prometheus.ts";

type ProcessMetric = MetricObjectWithValues<MetricValue<string>> & { aggregator?: string };

/** The worst process' lag is what counts, not the mean of all. */
const WORST = /^nodejs_eventloop_lag/;

function isProcessMetric(value: unknown): value is ProcessMetric {
  return isRecord(value) && typeof value.name === "string" && Array.isArray(value.values);
}

/** Reads a dump that came from another process; undefined when it is none. */
export function readMetricsDump(value: unknown): MetricsDump | undefined {
  if (!isRecord(value) || !Array.isArray(value.cells) || !Array.isArray(value.process)) return undefined;
  const cells = value.cells.filter(
    (one: unknown): one is CellsDump =>
      isRecord(one) && isRecord(one.spec) && typeof one.spec.name === "string" && Array.isArray(one.cells),
  );
  return { cells, process: value.process.filter(isProcessMetric) };
}

/** Counters and histograms only grow, and so outlive their process. */
const outlives = (kind: unknown): boolean => kind === "counter" || kind === "histogram";

/** prom-client writes types in numbers or words, by version. */
function kindOf({ type }: ProcessMetric): string {
  return String(type);
}

/** Each process has bounded its own label values. */
const ALL_NAMED: IsNamed = () => true;

function addUp(dumps: Iterable<MetricsDump>, isNamed: IsNamed): Map<string, Cells> {
  const byName = new Map<string, Cells>();
  for (const { cells } of dumps) {
    for (const dump of cells) {
      const known = byName.get(dump.spec.name) ?? new Cells(dump.spec, isNamed);
      byName.set(dump.spec.name, known);
      known.merge(dump);
    }
  }
  return byName;
}

/** Metrics of the processes themselves: each by prom-client's own rule. */
function addUpProcesses(dumps: readonly MetricsDump[]): Registry {
  const all = dumps.map(({ process }) =>
    process.filter(isProcessMetric).map((metric) => ({
      ...metric,
      aggregator: WORST.test(metric.name) ? "max" : (metric.aggregator ?? "sum"),
    })),
  );
  return AggregatorRegistry.aggregate(all);
}

/** The samples of several processes as if they were one. */
export class MetricsAcross {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly #isNamed: IsNamed;
  readonly #living = new Map<string, MetricsDump>();
  /** What ended processes leave, added up and bounded as that of one, however many there were. */
  #gone: MetricsDump = { cells: [], process: [] };
  #adding: Promise<unknown> = Promise.resolve();

  /** `isNamed`: label values that never become `other`. */
  constructor({ isNamed = () => false }: { readonly isNamed?: IsNamed } = {}) {
    this.#isNamed = isNamed;
  }

  /** Takes what a process has counted, in place of what it reported before. */
  put(id: string, dump: MetricsDump): void {
    this.#living.set(id, dump);
  }

  /** A process is gone: what it counted stays, so that no counter goes back; its gauges go. */
  ended(id: string): void {
    const last = this.#living.get(id);
    this.#living.delete(id);
    if (last === undefined) return;
    const kept: MetricsDump = {
      cells: last.cells.filter(({ spec }) => outlives(spec.kind)),
      process: last.process.filter(isProcessMetric).filter((metric) => outlives(kindOf(metric))),
    };
    this.#adding = this.#adding.then(async () => {
      const both = [this.#gone, kept];
      const process = await addUpProcesses(both).getMetricsAsJSON();
      this.#gone = { cells: [...addUp(both, this.#isNamed).values()].map((cells) => cells.dump()), process };
    });
  }

  /** All of them in Prometheus' format. */
  async render(): Promise<string> {
    await this.#adding;
    const dumps = [...this.#living.values(), this.#gone];
    const own = new Registry();
    for (const cells of addUp(dumps, ALL_NAMED).values()) own.registerMetric(asMetric(cells));
    return [await own.metrics(), await addUpProcesses(dumps).metrics()].filter((text) => text !== "").join("\n");
  }
}
