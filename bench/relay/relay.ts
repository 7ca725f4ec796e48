import { join } from "node:path";
import { AppError } from "@turnpike/base";
import type { Benchmark, BenchOptions } from "../lib/benchmark.ts";
import { startChild } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import type { Report, Row, Table } from "../lib/report.ts";
import type { BackendOperations } from "./children/backend.ts";
import { benchIdle } from "./idle.ts";
import { benchLatency } from "./latency.ts";
import { findNginx, PROGRAM_NAMES, startProgram } from "./programs.ts";
import { type Measured, type RoundsOptions, runRounds } from "./rounds.ts";
import { type Side, startBare, startOurs } from "./sides.ts";
import { WORKLOADS, type Workload } from "./workloads.ts";

const CONNECTIONS = 32;
const IDLE_CLIENTS = 10_000;

function rowsOf(workload: Workload, ours: Measured, bare: Measured): Row[] {
  const { name, title, aim } = workload;
  return [
    {
      name: `relay.${name}-cpu`,
      title: `CPU a request: ${title}`,
      ours: { value: ours.cpuMicros, unit: "µs" },
      reference: { value: bare.cpuMicros, unit: "µs" },
      ratioOf: "ours / reference",
      ratio: ours.cpuRatio,
      ...(aim === undefined ? {} : { aim: { op: "<=", value: aim } as const }),
    },
    {
      name: `relay.${name}`,
      title: "  requests a second",
      ours: { value: ours.perSecond, unit: "/s" },
      reference: { value: bare.perSecond, unit: "/s" },
      ratioOf: "ours / reference",
      ratio: ours.perSecondRatio,
    },
  ];
}

function tableOf(workload: Workload, measured: readonly Measured[], failed: Readonly<Record<string, string>>): Table {
  const bytes = measured[0]?.answerBytes ?? 0;
  const lines = measured.map((one) => [
    one.name,
    Math.round(one.perSecond).toLocaleString("en-US"),
    one.perSecondRatio.toFixed(2),
    one.cpuMicros.toFixed(1),
    one.cpuRatio.toFixed(2),
    `${one.cpuSpread[0].toFixed(2)}–${one.cpuSpread[1].toFixed(2)}`,
    one.upstreamCalls.toFixed(2),
    `${Math.round(one.rssBytes / 1_048_576)} MiB`,
  ]);
  for (const [name, why] of Object.entries(failed)) lines.push([name, `failed: ${why.slice(0, 160)}`]);
  return {
    title: `${workload.name}: ${workload.title}; one answer of the baseline is ${bytes} bytes with its head`,
    head: ["side", "req/s", "ratio", "CPU µs", "ratio", "of rounds", "upstream calls", "RSS after"],
    lines: lines.map((line) => (line.length < 8 ? [...line, ...Array<string>(8 - line.length).fill("")] : line)),
  };
}

/** Starts nginx where there is one, and the programs that were given. The stack owns them, also when one fails. */
async function startOthers(
  upstreamPort: number,
  peers: Readonly<Record<string, string>>,
  notes: string[],
  owned: AsyncDisposableStack,
): Promise<readonly Side[]> {
  const nginx = findNginx();
  const wanted = nginx === undefined ? peers : { nginx, ...peers };
  if (!Object.hasOwn(wanted, "nginx")) notes.push("nginx: not installed");
  const sides: Side[] = [];
  for (const [name, file] of Object.entries(wanted)) {
    sides.push(owned.use(await startProgram(name, file, upstreamPort)));
  }
  return sides;
}

async function run({ quick, only, progress, seconds, peers = {} }: BenchOptions): Promise<Report> {
  const wanted = (part: string): boolean => only.length === 0 || only.includes(part);
  const unknown = Object.keys(peers).find((name) => !PROGRAM_NAMES.includes(name));
  if (unknown !== undefined) {
    throw new AppError("USAGE", { message: `${unknown} is no peer; there are: ${PROGRAM_NAMES.join(", ")}.` });
  }
  await using owned = new AsyncDisposableStack();
  progress("starting the stand-in back-end");
  const backend = owned.use(await startChild<BackendOperations>(join(import.meta.dirname, "children", "backend.ts")));
  const load = owned.use(await startChild<LoadOperations>(join(import.meta.dirname, "..", "lib", "load.ts")));
  const { port: backendPort } = await backend.ask("start", { host: "127.0.0.1" });
  const roundMs = Math.round((seconds ?? (quick ? 0.4 : 0.6)) * 1_000);
  const warmMs = quick ? 300 : 5_000;
  const options: RoundsOptions = { rounds: quick ? 1 : 15, roundMs, warmMs, connections: CONNECTIONS };
  const rows: Row[] = [];
  const tables: Table[] = [];
  const notes: string[] = [];

  const loads = WORKLOADS.filter(({ name }) => wanted(name));
  if (loads.length > 0 || wanted("latency")) {
    await using started = new AsyncDisposableStack();
    progress("starting the proxies");
    const bare = started.use(await startBare(backendPort));
    const ours = started.use(await startOurs(backendPort));
    const others = await startOthers(backendPort, peers, notes, started);
    const sides = [bare, ours, ...others];
    const [single] = WORKLOADS;
    if (single !== undefined) {
      progress("warming up");
      await runRounds(single, { ...options, rounds: 1 }, { sides, load, backend, progress });
    }
    for (const workload of loads) {
      progress(`${workload.name}: ${workload.title}`);
      const { measured, failed } = await runRounds(workload, options, { sides, load, backend, progress });
      const [base, own] = measured;
      if (base !== undefined && own !== undefined) rows.push(...rowsOf(workload, own, base));
      tables.push(tableOf(workload, measured, failed));
    }
    if (wanted("latency") && single !== undefined) {
      progress("added latency");
      const paced = { rounds: quick ? 1 : 3, roundMs, connections: CONNECTIONS, ratePerSecond: 1_000 };
      const report = await benchLatency(single, paced, { sides, backendPort, load, progress });
      rows.push(...report.rows);
      tables.push(...(report.tables ?? []));
      notes.push(...report.notes);
    }
    if (loads.length > 0) {
      notes.push(
        `load: ${CONNECTIONS} keep-alive connections, one request under way on each; ${warmMs} ms of load for each side, ` +
          `then ${options.rounds} rounds of ${roundMs} ms in turn; ratios are the middle of the rounds' own. Back-end, ` +
          "proxy and load generator share the cores, so that requests a second depend on all three; CPU a request is the proxy's alone",
      );
    }
  }
  if (wanted("idle")) {
    progress("idle WebSockets");
    const report = await benchIdle(quick ? IDLE_CLIENTS / 10 : IDLE_CLIENTS, backendPort);
    rows.push(...report.rows);
    notes.push(...report.notes);
  }
  return { rows, tables, notes };
}

/** The benchmark `relay`. */
export const relayBenchmark: Benchmark = {
  what: "the free relay beside a bare node:http and undici proxy, nginx, and other gateways given by path",
  parts: [...WORKLOADS.map(({ name }) => name), "latency", "idle"],
  packages: ["undici", "ws"],
  run,
};
