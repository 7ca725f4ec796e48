import { isRecord } from "@turnpike/base";
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, Registry } from "prom-client";
import { Cells, type CellsDump, type IsNamed, type MetricsDump } from "./cells.ts";
import { asMetric } from "./prometheus.ts";

/** The samples of several processes as if they were one. */
export interface MetricsAcross {
  /** Takes what a process has counted, in place of what it said before. */
  put(id: string, dump: MetricsDump): void;
  /** A process is gone: what it counted stays, so that no counter goes back; its gauges go. */
  ended(id: string): void;
  /** All of them in Prometheus' format. */
  render(): Promise<string>;
  readonly contentType: string;
}

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

/**
 * Creates a {@link MetricsAcross} without any process. `isNamed`: label values that never become `other`; what ended
 * processes leave is bounded as that of one, however many there were.
 */
export function createMetricsAcross({ isNamed = () => false }: { readonly isNamed?: IsNamed } = {}): MetricsAcross {
  const living = new Map<string, MetricsDump>();
  let gone: MetricsDump = { cells: [], process: [] };
  let goneProcess: Promise<unknown> = Promise.resolve();

  return {
    put(id, dump) {
      living.set(id, dump);
    },
    ended(id) {
      const last = living.get(id);
      living.delete(id);
      if (last === undefined) return;
      const kept: MetricsDump = {
        cells: last.cells.filter(({ spec }) => outlives(spec.kind)),
        process: last.process.filter(isProcessMetric).filter((metric) => outlives(kindOf(metric))),
      };
      goneProcess = goneProcess.then(async () => {
        const both = [gone, kept];
        const process = await addUpProcesses(both).getMetricsAsJSON();
        gone = { cells: [...addUp(both, isNamed).values()].map((cells) => cells.dump()), process };
      });
    },
    async render() {
      await goneProcess;
      const dumps = [...living.values(), gone];
      const own = new Registry();
      for (const cells of addUp(dumps, ALL_NAMED).values()) own.registerMetric(asMetric(cells));
      return [await own.metrics(), await addUpProcesses(dumps).metrics()].filter((text) => text !== "").join("\n");
    },
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
  };
}
