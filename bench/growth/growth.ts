import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Benchmark, BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import { openFilesLimit } from "../lib/process.ts";
import type { Report, Row, Table } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { BackendOperations } from "../relay/children/backend.ts";
import { type Point, startConnections, startServices, startSuppliers, startWorkers } from "./points.ts";

/** What grows. */
interface Part {
  readonly title: string;
  /** All of one part; the first is what the others are held against. */
  /** What it is measured for; `cpu` has an aim. */
  readonly measures: readonly ("cpu" | "memory")[];
  readonly starts: readonly ((backendPort: number) => Promise<Point>)[];
}

/** CPU a request may rise by so much, whatever grows. */
const AIM = 1.25;
/** For so long back-ends keep connections: each of 1,000 is asked seldom, and a new connection costs as much as some calls. */
const KEEP_ALIVE_SECONDS = 60;
/** Descriptors that a process has open for other things. */
const SPARE_FILES = 2_000;

const connectionsAtMost = (wanted: number): number =>
  process.platform === "linux" ? Math.min(wanted, Math.floor((openFilesLimit() - SPARE_FILES) / 2)) : wanted / 8;

const PARTS: Readonly<Record<string, Part>> = {
  suppliers: {
    title: "suppliers of one service",
    measures: ["cpu", "memory"],
    starts: [1, 10, 100, 1_000].map((size) => (port) => startSuppliers(port, size)),
  },
  services: {
    title: "services, of one supplier each, called in turn",
    measures: ["cpu", "memory"],
    starts: [10, 100, 1_000, 10_000].map((size) => (port) => startServices(port, size)),
  },
  connections: {
    title: "open connections, which send in turn",
    measures: ["cpu", "memory"],
    starts: [
      ...[100, 1_000, 8_000].map(
        (size) => (port: number) => startConnections(port, Math.floor(connectionsAtMost(size)), false),
      ),
      ...[100, 8_000].map(
        (size) => (port: number) => startConnections(port, Math.floor(connectionsAtMost(size)), true),
      ),
    ],
  },
  workers: {
    title: "processes that serve; above one a primary is beside them",
    measures: ["memory"],
    starts: [1, 2, 4].map((size) => (port) => startWorkers(port, size)),
  },
};

/** How long and how often each point is measured. */
interface Rounds {
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmMs: number;
  readonly idleMs: number;
}

/** What was found of one point. */
interface Found {
  readonly point: Point;
  /** Of each round: CPU a request, in microseconds. */
  readonly cpuMicros: number[];
  /** CPU of a second without load, in milliseconds. */
  idleMs: number;
  residentMiB: number;
  liveMiB: number | undefined;
}

const mib = (bytes: number): number => bytes / 1_048_576;

async function measure(
  name: string,
  points: readonly Point[],
  rounds: Rounds,
  modules: { readonly load: Child<LoadOperations>; readonly progress: (text: string) => void },
): Promise<readonly Found[]> {
  const { load, progress } = modules;
  const found = points.map((point): Found => ({ point, cpuMicros: [], idleMs: 0, residentMiB: 0, liveMiB: undefined }));
  const cpuOf = async ({ point }: Found, durationMs: number): Promise<number> => {
    const before = await point.cpuMicros();
    const { answers } = await load.ask("run", { ...point.load, durationMs });
    return ((await point.cpuMicros()) - before) / answers;
  };
  for (const one of found) {
    progress(`${name}: load before the first round, ${one.point.title}`);
    await cpuOf(one, rounds.warmMs);
  }
  for (let round = 0; round < rounds.rounds; round++) {
    progress(`${name}: round ${round + 1} of ${rounds.rounds}`);
    // alternating, so that none always has the warmer machine
    for (const one of round % 2 === 0 ? found : found.toReversed()) {
      one.cpuMicros.push(await cpuOf(one, rounds.roundMs));
    }
  }
  progress(`${name}: without load`);
  const before = await Promise.all(points.map((point) => point.cpuMicros()));
  await pause(rounds.idleMs);
  for (const [at, one] of found.entries()) {
    one.idleMs = ((await one.point.cpuMicros()) - (before[at] ?? 0)) / rounds.idleMs;
    const { residentBytes, liveBytes } = await one.point.memory();
    one.residentMiB = mib(residentBytes);
    one.liveMiB = liveBytes === undefined ? undefined : mib(liveBytes);
  }
  return found;
}

/** The middle of the rounds' own ratios, and their lowest and highest. */
function ratiosOf(one: Found, base: Found): { readonly middle: number; readonly spread: string } {
  const ratios = one.cpuMicros.map((value, round) => value / (base.cpuMicros[round] ?? Number.NaN));
  const spread = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`;
  return { middle: median(ratios), spread };
}

const sizeText = (sizeMiB: number): string =>
  sizeMiB >= 1 ? `${sizeMiB.toFixed(0)} MiB` : `${(sizeMiB * 1_024).toFixed(1)} KiB`;

const memoryOf = ({ liveMiB, residentMiB }: Found): number => liveMiB ?? residentMiB;

function rowsOf(name: string, { measures }: Part, found: readonly Found[]): readonly Row[] {
  const [base, ...others] = found.filter(({ point }) => point.title === String(point.size));
  if (base === undefined) return [];
  return others.flatMap((one): readonly Row[] => {
    const { size } = one.point;
    const rows: Record<Part["measures"][number], Row> = {
      cpu: {
        name: `growth.${name}-${size}-cpu`,
        title: `CPU a request, ${size} ${name} to ${base.point.size}`,
        ours: { value: median(one.cpuMicros), unit: "µs" },
        reference: { value: median(base.cpuMicros), unit: "µs" },
        ratioOf: "ours / reference",
        ratio: ratiosOf(one, base).middle,
        aim: { op: "<=", value: AIM },
      },
      memory: {
        name: `growth.${name}-${size}-memory`,
        title: `memory, ${size} ${name} to ${base.point.size}`,
        ours: { value: memoryOf(one), unit: "MiB" },
        reference: { value: memoryOf(base), unit: "MiB" },
        ratioOf: "ours / reference",
      },
    };
    return measures.map((what) => rows[what]);
  });
}

function tableOf(name: string, title: string, found: readonly Found[]): Table {
  const [base] = found;
  return {
    title: `${name}: ${title}`,
    head: [
      "",
      "CPU µs a request",
      "ratio",
      "of rounds",
      "CPU without load",
      "live MiB",
      "resident MiB",
      "memory for one more",
    ],
    lines: found.map((one) => {
      // A bare proxy is held against the smallest bare proxy.
      const isOwn = one.point.title === String(one.point.size);
      const first = isOwn ? base : found.find(({ point }) => point.title !== String(point.size));
      const more = one.point.size - (first?.point.size ?? 0);
      const ratios = ratiosOf(one, first ?? one);
      return [
        one.point.title,
        median(one.cpuMicros).toFixed(1),
        ratios.middle.toFixed(2),
        ratios.spread,
        `${one.idleMs.toFixed(1)} ms/s`,
        one.liveMiB?.toFixed(1) ?? "",
        one.residentMiB.toFixed(0),
        more === 0 ? "" : sizeText((memoryOf(one) - memoryOf(first ?? one)) / more),
      ];
    }),
  };
}

async function run({ quick, only, progress, seconds }: BenchOptions): Promise<Report> {
  await using owned = new AsyncDisposableStack();
  const backendFile = join(import.meta.dirname, "..", "relay", "children", "backend.ts");
  const backend = owned.use(await startChild<BackendOperations>(backendFile));
  const { port } = await backend.ask("start", {
    host: process.platform === "linux" ? "0.0.0.0" : "127.0.0.1",
    keepAliveSeconds: KEEP_ALIVE_SECONDS,
  });
  const roundMs = Math.round((seconds ?? (quick ? 0.3 : 0.8)) * 1_000);
  const rounds: Rounds = quick
    ? { rounds: 1, roundMs, warmMs: 500, idleMs: 500 }
    : { rounds: 9, roundMs, warmMs: 3_000, idleMs: 10_000 };
  const rows: Row[] = [];
  const tables: Table[] = [];
  for (const [name, part] of Object.entries(PARTS)) {
    const { title, starts } = part;
    if (only.length > 0 && !only.includes(name)) continue;
    await using started = new AsyncDisposableStack();
    const load = started.use(await startChild<LoadOperations>(join(import.meta.dirname, "..", "lib", "load.ts")));
    const points: Point[] = [];
    for (const [at, start] of starts.entries()) {
      progress(`${name}: starting ${at + 1} of ${starts.length}`);
      points.push(started.use(await start(port)));
    }
    const found = await measure(name, points, rounds, { load, progress });
    rows.push(...rowsOf(name, part, found));
    tables.push(tableOf(name, title, found));
  }
  return {
    rows,
    tables,
    notes: [
      `an eth_getBalance of another account each time, through the free relay, at most 32 under way; each size is a gateway of ` +
        `its own, all loaded in turn: ${rounds.warmMs} ms each, then ${rounds.rounds} rounds of ${roundMs} ms; ratios are the middle of the rounds' own`,
      `CPU without load is of ${rounds.idleMs} ms after that, for probes above all; live memory is what objects and buffers take after a ` +
        "collection of garbage; of workers it is resident memory, in which shared pages are divided by those who share them",
    ],
  };
}

/** The benchmark `growth`. */
export const growthBenchmark: Benchmark = {
  what: "what one free read costs as suppliers, services, connections and processes grow",
  parts: Object.keys(PARTS),
  packages: ["undici"],
  run,
};
