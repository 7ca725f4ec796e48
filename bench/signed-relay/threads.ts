import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report } from "../lib/report.ts";
import { type Network, startNetwork } from "./network.ts";
import { CONNECTIONS, middle, roundsOf, runRounds, startGround } from "./relays.ts";

/** Signing threads of the gateway and of the supplier. */
const WAYS = [
  [0, 0],
  [1, 0],
  [0, 1],
  [1, 1],
] as const;

/** The same relays with and without signing threads at either side. */
export async function threadsReport(options: BenchOptions): Promise<Report> {
  await using stack = new AsyncDisposableStack();
  const { backendPort, load, bare } = await startGround(stack);
  const plan = roundsOf(options);
  const networks: Network[] = [];
  // Each network takes seconds to start: the last way has threads at both sides.
  const ways = options.quick ? WAYS.slice(-1) : WAYS;
  for (const [gatewayThreads, supplierThreads] of ways) {
    options.progress(`starting with ${gatewayThreads} and ${supplierThreads} threads`);
    const operator = `bench threads ${gatewayThreads} ${supplierThreads}`;
    networks.push(
      stack.use(await startNetwork({ backendPorts: { [operator]: backendPort }, gatewayThreads, supplierThreads })),
    );
  }
  const found = await runRounds(plan, { load, bare, networks, progress: options.progress });
  const lines = found.map((rounds, at) => {
    const cell = (of: Parameters<typeof middle>[1], digits: number): string[] => {
      const { ours, ratio } = middle(rounds, of);
      return [ours.toFixed(digits), ratio.toFixed(2)];
    };
    return [
      (ways[at] ?? []).join(", "),
      ...cell((one) => one.frontMicros, 0),
      ...cell((one) => one.backMicros, 0),
      ...cell((one) => one.perSecond, 0),
      ...cell((one) => one.p50Ms, 2),
      ...cell((one) => one.p99Ms, 2),
    ];
  });
  return {
    rows: [],
    tables: [
      {
        title: `signing threads of gateway and supplier, ${CONNECTIONS} clients and one; each ratio is to two bare proxies in the same round`,
        head: [
          "threads",
          "gateway µs",
          "ratio",
          "supplier µs",
          "ratio",
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
    notes: [],
  };
}
