import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { AppError } from "@turnpike/base";
import type { BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { LoadOperations, LoadResult, LoadRun } from "../lib/load.ts";
import type { Report, Row, Table } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { BackendOperations } from "../relay/children/backend.ts";
import { requestOf, WORKLOADS } from "../relay/workloads.ts";
import {
  type BarePair,
  BLOCK_INTERVAL_MS,
  BLOCKS_PER_SESSION,
  type Network,
  type NetworkOptions,
  OPERATOR,
  type SupplierRelays,
  startBarePair,
  startNetwork,
  untilSettled,
} from "./network.ts";
import { shareTable } from "./shares.ts";

/** How long and how often {@link runRounds} measures. */
export interface RelayRounds {
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmMs: number;
  readonly idleMs: number;
}

/** Two processes on a relay's way: gateway and supplier, or two bare proxies. */
interface Way {
  readonly load: Omit<LoadRun, "durationMs" | "connections">;
  readonly front: Pick<Child<never>, "cpuMicros">;
  readonly back: Pick<Child<never>, "cpuMicros">;
}

/** What a round measured of a way; CPU in µs for one relay, without what an idle process takes. */
interface Sample {
  readonly perSecond: number;
  readonly frontMicros: number;
  readonly backMicros: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** CPU of a way's processes. */
interface Cpu {
  readonly atMs: number;
  readonly front: number;
  readonly back: number;
}

/** What an idle way takes, in µs of CPU for a millisecond. */
type IdleCpu = Pick<Cpu, "front" | "back">;

/** Rounds of the same way, with those of the bare one beside them. */
export interface Rounds {
  readonly ours: readonly Sample[];
  readonly bare: readonly Sample[];
  /** CPU for one relay over all rounds until every claim was settled. */
  readonly whole: {
    readonly relays: number;
    readonly mined: number;
    readonly frontMicros: number;
    readonly backMicros: number;
  };
  readonly idle: IdleCpu;
  /** Relays of the supplier for one of a client: probes are relays too. */
  readonly relaysPerCall: number;
  readonly relays: SupplierRelays;
}

/** Connections of the run that looks for the most relays a second. */
export const CONNECTIONS = 32;
const READY_MS = 60_000;
const ANSWER = '{"jsonrpc":"2.0","id":1,"result":"0xde0b6b3a7640000"}';

function loadOf(port: number, host: string): Way["load"] {
  const [workload] = WORKLOADS;
  if (workload === undefined) throw new AppError("INTERNAL");
  const { request, vary } = requestOf(workload, { host, path: "/" });
  const load = { port, request, status: 200, body: ANSWER };
  return vary === undefined ? load : { ...load, vary };
}

async function cpuOf({ front, back }: Way): Promise<Cpu> {
  const atMs = performance.now();
  return { atMs, front: await front.cpuMicros(), back: await back.cpuMicros() };
}

function cpuBetween(before: Cpu, after: Cpu, idle: IdleCpu): IdleCpu {
  const ms = after.atMs - before.atMs;
  return {
    front: Math.max(0, after.front - before.front - idle.front * ms),
    back: Math.max(0, after.back - before.back - idle.back * ms),
  };
}

async function idleCpu(way: Way, ms: number): Promise<IdleCpu> {
  const before = await cpuOf(way);
  await pause(ms);
  const after = await cpuOf(way);
  const elapsedMs = after.atMs - before.atMs;
  return { front: (after.front - before.front) / elapsedMs, back: (after.back - before.back) / elapsedMs };
}

/** Asks until the gateway has its session and has probed the supplier. */
async function untilServed(way: Way, load: Child<LoadOperations>): Promise<void> {
  const endMs = performance.now() + READY_MS;
  for (;;) {
    try {
      await load.ask("run", { ...way.load, connections: 1, durationMs: 1 });
      return;
    } catch (error) {
      if (performance.now() > endMs) throw error;
      await pause(100);
    }
  }
}

interface RoundModules<Networks> {
  readonly load: Child<LoadOperations>;
  readonly bare: Way;
  readonly networks: Networks;
  readonly progress: BenchOptions["progress"];
}

/**
 * Loads the bare way and those of all networks in turn.
 * @throws AppError INTERNAL when an answer is not the right one, or a relay is not paid
 */
export async function runRounds<Networks extends readonly Network[]>(
  options: RelayRounds,
  { load, bare, networks, progress }: RoundModules<Networks>,
): Promise<{ [At in keyof Networks]: Rounds }> {
  const measured = networks.map((network) => new MeasuredWay(network, load));
  const reference: Sample[] = [];
  for (const one of measured) await untilServed(one.way, load);
  for (const way of [bare, ...measured.map((one) => one.way)]) {
    await load.ask("run", { ...way.load, connections: CONNECTIONS, durationMs: options.warmMs });
  }
  for (const one of measured) await one.begin(options.idleMs);
  const noCpu = await idleCpu(bare, options.idleMs / 2);
  for (let round = 0; round < options.rounds; round++) {
    progress(`round ${round + 1} of ${options.rounds}`);
    const turns = [
      async () => void reference.push((await sample(bare, load, noCpu, options.roundMs)).sample),
      ...measured.map((one) => () => one.round(options.roundMs)),
    ];
    // Alternating, so that none always has the warmer machine.
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
  }
  const found: Rounds[] = [];
  for (const one of measured) found.push(await one.end(reference));
  return found as { [At in keyof Networks]: Rounds };
}

async function sample(
  way: Way,
  load: Child<LoadOperations>,
  without: IdleCpu,
  durationMs: number,
): Promise<{ readonly sample: Sample; readonly answers: number }> {
  const alone = await load.ask("run", { ...way.load, connections: 1, durationMs });
  const before = await cpuOf(way);
  const many = await load.ask("run", { ...way.load, connections: CONNECTIONS, durationMs });
  const cpu = cpuBetween(before, await cpuOf(way), without);
  return { sample: sampleOf(alone, many, cpu), answers: alone.answers + many.answers };
}

/** A network between its first and its last round. */
class MeasuredWay {
  readonly way: Way;
  readonly #network: Network;
  readonly #load: Child<LoadOperations>;
  readonly #samples: Sample[] = [];
  #idle: IdleCpu = { front: 0, back: 0 };
  #before: { readonly cpu: Cpu; readonly served: number; readonly mined: number } | undefined;
  #answers = 0;

  constructor(network: Network, load: Child<LoadOperations>) {
    this.#network = network;
    this.#load = load;
    this.way = wayOf(network);
  }

  async begin(idleMs: number): Promise<void> {
    await untilSettled(this.#network);
    this.#idle = await idleCpu(this.way, idleMs);
    const { served, mined } = await this.#network.relays();
    this.#before = { cpu: await cpuOf(this.way), served, mined };
  }

  async round(durationMs: number): Promise<void> {
    const { sample: one, answers } = await sample(this.way, this.#load, this.#idle, durationMs);
    this.#samples.push(one);
    this.#answers += answers;
  }

  async end(bare: readonly Sample[]): Promise<Rounds> {
    const relays = await untilSettled(this.#network);
    if (this.#before === undefined) throw new AppError("INTERNAL");
    const cpu = cpuBetween(this.#before.cpu, await cpuOf(this.way), this.#idle);
    const served = relays.served - this.#before.served;
    const mined = relays.mined - this.#before.mined;
    return {
      ours: this.#samples,
      bare,
      whole: { relays: served, mined, frontMicros: cpu.front / served, backMicros: cpu.back / served },
      idle: this.#idle,
      relaysPerCall: served / this.#answers,
      relays,
    };
  }
}

function sampleOf(alone: LoadResult, many: LoadResult, cpu: IdleCpu): Sample {
  return {
    perSecond: (many.answers / many.elapsedMs) * 1_000,
    frontMicros: cpu.front / many.answers,
    backMicros: cpu.back / many.answers,
    p50Ms: alone.latencyMs.p50,
    p99Ms: alone.latencyMs.p99,
  };
}

function wayOf({ gateway, suppliers: [supplier], gatewayPort }: Network): Way {
  return { load: loadOf(gatewayPort, "eth.localhost"), front: gateway, back: supplier };
}

function bareWay({ front, back, port }: BarePair): Way {
  return { load: loadOf(port, "127.0.0.1"), front, back };
}

/** The middle of a figure over the rounds, and of its ratio to the bare round beside it. */
export function middle(rounds: Rounds, of: (sample: Sample) => number) {
  return {
    ours: median(rounds.ours.map(of)),
    bare: median(rounds.bare.map(of)),
    ratio: median(
      rounds.ours.map((one, round) => {
        const beside = rounds.bare[round];
        return of(one) / (beside === undefined ? Number.NaN : of(beside));
      }),
    ),
  };
}

function row(name: string, title: string, unit: string, rounds: Rounds, of: (sample: Sample) => number): Row {
  const { ours, bare, ratio } = middle(rounds, of);
  return {
    name: `signed-relay.${name}`,
    title,
    ours: { value: ours, unit },
    reference: { value: bare, unit },
    ratioOf: "ours / reference",
    ratio,
  };
}

function rowsOf(rounds: Rounds): Row[] {
  const claims = (name: string, title: string, value: number, of: (sample: Sample) => number): Row => ({
    name: `signed-relay.${name}`,
    title,
    ours: { value, unit: "µs" },
    reference: { value: middle(rounds, of).bare, unit: "µs" },
    ratioOf: "ours / reference",
  });
  const { whole } = rounds;
  return [
    row("gateway-cpu", `CPU a relay of the gateway, ${CONNECTIONS} clients`, "µs", rounds, (one) => one.frontMicros),
    row("supplier-cpu", "CPU a relay of the supplier", "µs", rounds, (one) => one.backMicros),
    claims("gateway-cpu-whole", "  gateway, of the whole run", whole.frontMicros, (one) => one.frontMicros),
    claims("supplier-cpu-whole", "  supplier, claims and proofs included", whole.backMicros, (one) => one.backMicros),
    row("per-second", `relays a second, ${CONNECTIONS} clients`, "/s", rounds, (one) => one.perSecond),
    row("p50", "time of a relay, one client, p50", "ms", rounds, (one) => one.p50Ms),
    row("p99", "time of a relay, one client, p99", "ms", rounds, (one) => one.p99Ms),
  ];
}

function aimTable(rounds: Rounds): Table {
  const of = (pick: (sample: Sample) => number): number => median(rounds.ours.map(pick));
  const line = (title: string, value: number, unit: string, op: "<=" | ">=", aim: number): string[] => {
    const isMet = op === "<=" ? value <= aim : value >= aim;
    return [title, `${value.toFixed(2)} ${unit}`, `${op} ${aim} ${unit}`, isMet ? "met" : "not met"];
  };
  return {
    title: "signed relays beside what issue 16 aims at, on two idle cores",
    head: ["what", "here", "aim", ""],
    lines: [
      line("CPU a relay of the gateway", of((one) => one.frontMicros) / 1_000, "ms", "<=", 0.6),
      line("CPU a relay of the supplier", of((one) => one.backMicros) / 1_000, "ms", "<=", 0.7),
      line(
        "p50 of one client",
        of((one) => one.p50Ms),
        "ms",
        "<=",
        2,
      ),
      line(
        `relays a second, ${CONNECTIONS} clients`,
        of((one) => one.perSecond),
        "/s",
        ">=",
        1_000,
      ),
    ],
  };
}

/** What both ways of a measurement share: back-end, load generator and bare proxies. */
export interface Ground {
  readonly backendPort: number;
  readonly load: Child<LoadOperations>;
  readonly bare: Way;
}

/** Starts a {@link Ground}; the stack owns it. */
export async function startGround(stack: AsyncDisposableStack): Promise<Ground> {
  const bench = join(import.meta.dirname, "..");
  const backend = stack.use(await startChild<BackendOperations>(join(bench, "relay", "children", "backend.ts")));
  const load = stack.use(await startChild<LoadOperations>(join(bench, "lib", "load.ts")));
  const { port } = await backend.ask("start", { host: "127.0.0.1" });
  return { backendPort: port, load, bare: bareWay(stack.use(await startBarePair(port))) };
}

/** How long and how often a run measures. */
export function roundsOf({ quick, seconds }: BenchOptions): RelayRounds {
  const roundMs = Math.round((seconds ?? (quick ? 1 : 3)) * 1_000);
  return quick
    ? { rounds: 1, roundMs, warmMs: 1_000, idleMs: 2_000 }
    : { rounds: 7, roundMs, warmMs: 5_000, idleMs: 10_000 };
}

/** CPU, rate and time of relays through gateway and supplier, beside two bare proxies, and where the CPU goes. */
export async function relaysReport(
  options: BenchOptions,
  threads: Omit<NetworkOptions, "backendPorts"> = {},
): Promise<Report> {
  await using stack = new AsyncDisposableStack();
  options.progress("starting a chain, a supplier, a gateway and two bare proxies");
  const { backendPort, load, bare } = await startGround(stack);
  const network = stack.use(await startNetwork({ backendPorts: { [OPERATOR]: backendPort }, ...threads }));
  const plan = roundsOf(options);
  const [rounds] = await runRounds(plan, { load, bare, networks: [network] as const, progress: options.progress });
  options.progress("profiles");
  const {
    gateway,
    suppliers: [supplier],
  } = network;
  for (const side of [gateway, supplier]) await side.ask("startProfile", undefined);
  const profiled = await load.ask("run", {
    ...wayOf(network).load,
    connections: CONNECTIONS,
    durationMs: plan.roundMs * 2,
  });
  const [gatewayTime, supplierTime] = [
    await gateway.ask("stopProfile", undefined),
    await supplier.ask("stopProfile", undefined),
  ];
  const { mined, settled } = await untilSettled(network);
  const micros = (value: number): string => `${Math.round(value * 1_000)} µs of CPU a second`;
  return {
    rows: rowsOf(rounds),
    tables: [aimTable(rounds), shareTable(profiled.answers, { gateway: gatewayTime, supplier: supplierTime })],
    notes: [
      `relays: the reference is two bare proxies one behind the other (node:http and undici's Pool), the first beside our gateway and the second beside our supplier. ${CONNECTIONS} keep-alive connections, one request under way on each; ${plan.rounds} rounds of ${plan.roundMs} ms each for one client and for ${CONNECTIONS}, in turn; ratios are the middle of the rounds' own. Every answer's body is compared.`,
      `relays: CPU is that of all threads of a process, without what it takes when it is idle (gateway ${micros(rounds.idle.front)}, supplier ${micros(rounds.idle.back)}). Blocks of ${BLOCK_INTERVAL_MS} ms, sessions of ${BLOCKS_PER_SESSION}. "The whole run" is from the first round until the last claim was settled, over ${rounds.whole.relays} relays.`,
      `relays: ${rounds.relaysPerCall.toFixed(4)} relays at the supplier for one call of a client (probes are relays too); ${mined} mined, ${settled} settled, none lost`,
    ],
  };
}
