import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report } from "../lib/report.ts";
import { type Network, startNetwork } from "./network.ts";
import { CONNECTIONS, middle, roundsOf, runRounds, startGround } from "./relays.ts";

/** Relays of a session that the chain wants mined: its default, of which these sessions stay below, and a few. */
const TARGETS = [undefined, 10] as const;

/** Relays that all meet the difficulty beside such of which most do not: their names are in the log before their answers leave. */
export async function difficultyReport(options: BenchOptions): Promise<Report> {
  await using stack = new AsyncDisposableStack();
  const { backendPort, load, bare } = await startGround(stack);
  const networks: Network[] = [];
  for (const targetNumRelays of TARGETS) {
    options.progress(`starting with a target of ${targetNumRelays ?? "all"} relays`);
    const operator = `bench difficulty ${targetNumRelays ?? "base"}`;
    networks.push(stack.use(await startNetwork({ backendPorts: { [operator]: backendPort }, targetNumRelays })));
  }
  const found = await runRounds(roundsOf(options), { load, bare, networks, progress: options.progress });
  const lines = found.map((rounds) => {
    const cell = (of: Parameters<typeof middle>[1], digits: number): string[] => {
      const { ours, ratio } = middle(rounds, of);
      return [ours.toFixed(digits), ratio.toFixed(2)];
    };
    const { relays, mined } = rounds.whole;
    return [
      `${relays}`,
      `${((mined / relays) * 100).toFixed(1)} %`,
      ...cell((one) => one.frontMicros, 0),
      ...cell((one) => one.backMicros, 0),
      rounds.whole.backMicros.toFixed(0),
      ...cell((one) => one.perSecond, 0),
      ...cell((one) => one.p50Ms, 2),
      ...cell((one) => one.p99Ms, 2),
    ];
  });
  return {
    rows: [],
    tables: [
      {
        title: `relays at base difficulty, and most below it, ${CONNECTIONS} clients and one; each ratio is to two bare proxies in the same round`,
        head: [
          "served",
          "mined",
          "gateway µs",
          "ratio",
          "supplier µs",
          "ratio",
          "with claims µs",
          "relays/s",
          "ratio",
          "p50 ms",
          "ratio",
          "p99 ms",
          "ratio",
        ],
        lines,
      },
    ],
    notes: ["difficulty: the chain raises it with the first settlement, of the relays of the warm-up."],
  };
}
