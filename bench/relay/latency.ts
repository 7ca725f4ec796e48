import type { BenchOptions } from "../lib/benchmark.ts";
import type { Child } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import type { Report } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { loadOf } from "./rounds.ts";
import type { Side } from "./sides.ts";
import type { Workload } from "./workloads.ts";

/** Options of {@link benchLatency}. */
export interface LatencyOptions {
  readonly rounds: number;
  readonly roundMs: number;
  readonly connections: number;
  /** Low enough that none is busy: a queue would be what is measured. */
  readonly ratePerSecond: number;
}

interface Latency {
  readonly p50: number;
  readonly p99: number;
}

/** Time that a request takes through a proxy beyond what it takes without one, at a steady rate. */
export async function benchLatency(
  workload: Workload,
  options: LatencyOptions,
  modules: {
    readonly sides: readonly Side[];
    readonly backendPort: number;
    readonly load: Child<LoadOperations>;
    readonly progress: BenchOptions["progress"];
  },
): Promise<Report> {
  const { sides, backendPort, load } = modules;
  const direct = { name: "direct", port: backendPort, host: "127.0.0.1", path: "/" };
  const places = [direct, ...sides];
  const found = new Map<string, Latency[]>(places.map(({ name }) => [name, []]));
  const { connections, ratePerSecond, roundMs } = options;
  for (let round = -1; round < options.rounds; round++) {
    if (round >= 0) modules.progress(`added latency: round ${round + 1} of ${options.rounds}`);
    for (const place of round % 2 === 0 ? places : places.toReversed()) {
      const durationMs = round < 0 ? Math.min(300, roundMs) : roundMs;
      const run = { ...loadOf(workload, place), connections, ratePerSecond, durationMs };
      const { latencyMs } = await load.ask("run", run);
      if (round >= 0) found.get(place.name)?.push(latencyMs);
    }
  }
  const added = (name: string, part: keyof Latency): number => {
    const bare = found.get("direct") ?? [];
    return median((found.get(name) ?? []).map((one, round) => one[part] - (bare[round]?.[part] ?? Number.NaN)));
  };
  const [baseline = direct] = sides;
  const ms = (value: number): string => value.toFixed(3);
  return {
    rows: (["p50", "p99"] as const).map((part) => ({
      name: `relay.latency-${part}`,
      title: `time added to a call, ${part}, ${ratePerSecond} a second`,
      ours: { value: added("ours", part), unit: "ms" },
      reference: { value: added(baseline.name, part), unit: "ms" },
      ratioOf: "ours / reference",
    })),
    tables: [
      {
        title: `time added to ${workload.title} at ${ratePerSecond} a second on ${connections} connections, ms`,
        head: ["side", "p50", "p99"],
        lines: sides.map(({ name }) => [name, ms(added(name, "p50")), ms(added(name, "p99"))]),
      },
    ],
    notes: [
      `latency: without a proxy a call takes ${ms(median((found.get("direct") ?? []).map(({ p50 }) => p50)))} ms (p50), ` +
        `${ms(median((found.get("direct") ?? []).map(({ p99 }) => p99)))} ms (p99), counted from when it was due; ` +
        `${options.rounds} rounds of ${roundMs} ms`,
    ],
  };
}
