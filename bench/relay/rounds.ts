import type { Child } from "../lib/child.ts";
import type { LoadOperations, LoadRun } from "../lib/load.ts";
import { median } from "../lib/stats.ts";
import type { BackendOperations } from "./children/backend.ts";
import type { Side } from "./sides.ts";
import { requestOf, type Workload } from "./workloads.ts";

/** Options of {@link runRounds}. */
export interface RoundsOptions {
  readonly rounds: number;
  readonly roundMs: number;
  /** Load before the first round, for each side: a server runs for days, and its engine compiles in the first seconds. */
  readonly warmMs: number;
  readonly connections: number;
}

/** What takes part. The first side is the baseline; only of it and of ours a fault ends the benchmark. */
export interface RoundsModules {
  readonly sides: readonly Side[];
  readonly load: Child<LoadOperations>;
  readonly backend: Child<BackendOperations>;
  /** Gets a line for each round. */
  readonly progress: (text: string) => void;
}

/** What one side did in all rounds of a workload: middles of its rounds, and of its ratios to the baseline's rounds. */
export interface Measured {
  readonly name: string;
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly perSecondRatio: number;
  readonly cpuRatio: number;
  /** Lowest and highest of the rounds' CPU ratios. */
  readonly cpuSpread: readonly [number, number];
  /** JSON-RPC calls at the back-end for one request. */
  readonly upstreamCalls: number;
  readonly answerBytes: number;
  readonly rssBytes: number;
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly upstreamCalls: number;
  readonly answerBytes: number;
}

/** What a load generator is told for one workload at one side. */
export function loadOf(workload: Workload, side: Pick<Side, "port" | "host" | "path">): Omit<LoadRun, "durationMs"> {
  const { request, vary } = requestOf(workload, side);
  const base = { port: side.port, request, connections: 1, status: 200, unwanted: '"error"' };
  return vary === undefined ? base : { ...base, vary };
}

/** Runs a workload at all sides in turn, round after round. Sides that fail are named with why, and left out. */
export async function runRounds(
  workload: Workload,
  options: RoundsOptions,
  modules: RoundsModules,
): Promise<{ readonly measured: readonly Measured[]; readonly failed: Readonly<Record<string, string>> }> {
  const { sides, load, backend, progress } = modules;
  const failed: Record<string, string> = {};
  const sample = async (side: Side, durationMs: number): Promise<Sample> => {
    await backend.ask("counted", undefined);
    const cpuBefore = await side.cpuMicros();
    const run = { ...loadOf(workload, side), connections: options.connections, durationMs };
    const { answers, elapsedMs, answerBytes } = await load.ask("run", run);
    const cpuMicros = ((await side.cpuMicros()) - cpuBefore) / answers;
    const { calls } = await backend.ask("counted", undefined);
    return { perSecond: (answers / elapsedMs) * 1_000, cpuMicros, upstreamCalls: calls / answers, answerBytes };
  };
  const attempt = async (side: Side, durationMs: number): Promise<Sample | undefined> => {
    if (Object.hasOwn(failed, side.name)) return undefined;
    try {
      return await sample(side, durationMs);
    } catch (error) {
      if (side === sides[0] || side.name === "ours") throw error;
      failed[side.name] = (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
      return undefined;
    }
  };
  for (const side of sides) {
    progress(`${workload.name}: load before the first round, ${side.name}`);
    await attempt(side, options.warmMs);
  }
  const rounds: ReadonlyMap<Side, Sample>[] = [];
  for (let round = 0; round < options.rounds; round++) {
    progress(`${workload.name}: round ${round + 1} of ${options.rounds}`);
    const samples = new Map<Side, Sample>();
    // alternating, so that none always has the warmer machine
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const one = await attempt(side, options.roundMs);
      if (one !== undefined) samples.set(side, one);
    }
    rounds.push(samples);
  }
  const [baseline] = sides;
  const measured = sides.flatMap((side): Measured[] => {
    const pairs = rounds.flatMap((samples) => {
      const own = samples.get(side);
      const base = baseline === undefined ? undefined : samples.get(baseline);
      return own === undefined || base === undefined ? [] : [{ own, base }];
    });
    if (pairs.length === 0 || Object.hasOwn(failed, side.name)) return [];
    const middle = (of: (pair: (typeof pairs)[number]) => number): number => median(pairs.map(of));
    const cpuRatios = pairs.map(({ own, base }) => own.cpuMicros / base.cpuMicros);
    return [
      {
        name: side.name,
        perSecond: middle(({ own }) => own.perSecond),
        cpuMicros: middle(({ own }) => own.cpuMicros),
        perSecondRatio: middle(({ own, base }) => own.perSecond / base.perSecond),
        cpuRatio: median(cpuRatios),
        cpuSpread: [Math.min(...cpuRatios), Math.max(...cpuRatios)],
        upstreamCalls: middle(({ own }) => own.upstreamCalls),
        answerBytes: middle(({ own }) => own.answerBytes),
        rssBytes: side.rssBytes(),
      },
    ];
  });
  return { measured, failed };
}
