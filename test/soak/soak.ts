import { join } from "node:path";
import { AppError } from "@turnpike/base";
import { Pool } from "undici";
import { type Child, type Operations, startChild } from "../../bench/lib/child.ts";
import { median } from "../../bench/lib/stats.ts";
import type { OurRelayOperations } from "../../bench/relay/children/our-relay.ts";
import { type SupplierRelays, startNetwork, untilSettled } from "../../bench/signed-relay/network.ts";
import { Checker, type Tally } from "./checker.ts";
import { type Question, question, textOf } from "./questions.ts";
import { createRandom, type Random } from "./random.ts";
import type { SupplierCounts, SuppliersOperations } from "./suppliers.ts";

/** What a soak is run with. */
export interface SoakOptions {
  readonly durationMs: number;
  readonly seed: number;
  readonly suppliers: number;
  readonly singlesPerSecond: number;
  readonly batchesPerSecond: number;
  readonly maxBatchItems: number;
  /** The suppliers are those of sessions on a chain: each relay is signed, and claimed, proven and settled there. */
  readonly isSigned?: boolean;
  /** Told every few seconds. */
  readonly progress: (text: string) => void;
  readonly signal?: AbortSignal;
}

/** What a soak found. */
export interface SoakSummary {
  readonly seed: number;
  readonly durationMs: number;
  readonly tally: Tally;
  /** Errors of all calls that are no writes. */
  readonly errorShare: number;
  readonly suppliers: SupplierCounts;
  readonly latencyMs: { readonly p50: number; readonly p99: number; readonly most: number };
  /** By process; not judged when the soak was too short. */
  readonly memory: { readonly isJudged: boolean; readonly processes: Readonly<Record<string, ProcessGrowth>> };
  /** What the chain settled of the suppliers' relays, of a signed soak. */
  readonly relays?: SupplierRelays;
  /** What did not hold; empty when all did. */
  readonly faults: readonly string[];
}

/** Medians of a process's resident bytes: the first quarter after a warm-up, and the last. */
export interface ProcessGrowth {
  readonly firstBytes: number;
  readonly lastBytes: number;
}

/** Load and suppliers that the product's own claims are about. */
export const SOAK_DEFAULTS = {
  suppliers: 6,
  singlesPerSecond: 150,
  batchesPerSecond: 24,
  // With the batches above a million items in half an hour.
  maxBatchItems: 50,
} as const;

const MAX_ERROR_SHARE = 0.001;
const MAX_GROWTH = 1.2;
/** Shorter runs say nothing about memory: the process is still warming up. */
const MIN_MEMORY_MS = 120_000;
const WARM_UP_SHARE = 0.1;
const MAX_IN_FLIGHT = 1_500;
const TICK_MS = 20;
const LATENCIES = 100_000;
/** The gateway's own deadline is 20 s: what takes longer was lost. */
const LOST_MS = 30_000;
const DRAIN_MS = LOST_MS + 5_000;
const SILENT_SHARE = 0.03;
const WRITE_SHARE = 0.02;

/** Sends requests and checks answers. */
class Client {
  readonly checker: Checker;
  readonly latenciesMs: number[] = [];
  readonly #pool: Pool;
  readonly #random: Random;
  readonly #options: SoakOptions;
  readonly #running = new Set<Promise<void>>();
  #mostMs = 0;
  #latencyCount = 0;

  constructor(options: SoakOptions, port: number, startMs: number) {
    this.#options = options;
    this.#random = createRandom(options.seed ^ 0x5eed);
    this.checker = new Checker(startMs);
    this.#pool = new Pool(`http://127.0.0.1:${port}`, { connections: MAX_IN_FLIGHT, pipelining: 1 });
  }

  get mostMs(): number {
    return this.#mostMs;
  }

  #question(): Question {
    const random = this.#random;
    const roll = random.next();
    if (roll < WRITE_SHARE) return question(random, { method: "eth_sendRawTransaction" });
    return question(random, { silent: roll < WRITE_SHARE + SILENT_SHARE });
  }

  single(): void {
    const one = this.#question();
    const { tally } = this.checker;
    this.#note([one]);
    tally.requests++;
    this.#send(textOf(this.#random, one), 1, (sent, status, text) => this.checker.single(one, sent, status, text));
  }

  batch(): void {
    const random = this.#random;
    const all = Array.from({ length: random.whole(1, this.#options.maxBatchItems) }, () => this.#question());
    // Two calls of one id are two calls.
    const [first] = all;
    if (first?.id !== undefined && random.next() < 0.2) all.push({ ...question(random), id: first.id });
    const { tally } = this.checker;
    this.#note(all);
    tally.requests++;
    tally.batches++;
    tally.batchItems += all.length;
    const body = `[${all.map((one) => textOf(random, one)).join(random.next() < 0.5 ? "," : " ,\n")}]`;
    const calls = all.filter(({ id }) => id !== undefined).length;
    this.#send(body, calls, (sent, status, text) => this.checker.batch(all, sent, status, text));
  }

  #note(all: readonly Question[]): void {
    const { tally } = this.checker;
    for (const { id, method } of all) {
      if (id === undefined) tally.notifications++;
      else if (method === "eth_sendRawTransaction") tally.writes++;
    }
  }

  #send(
    body: string,
    calls: number,
    check: (sent: ReturnType<Checker["sent"]>, status: number, text: string) => void,
  ): void {
    if (this.#running.size >= MAX_IN_FLIGHT) {
      this.checker.lost("too many requests wait for answers", calls);
      return;
    }
    const run = async (): Promise<void> => {
      const sent = this.checker.sent();
      const startMs = performance.now();
      try {
        const answer = await this.#pool.request({
          path: "/",
          method: "POST",
          headers: { host: "eth.localhost", "content-type": "application/json" },
          body,
          headersTimeout: LOST_MS,
          bodyTimeout: LOST_MS,
        });
        check(sent, answer.statusCode, await answer.body.text());
      } catch (error) {
        this.checker.lost(`no answer: ${error instanceof Error ? error.message : String(error)}`, calls);
      }
      this.#timed(performance.now() - startMs);
    };
    const running = run();
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }

  /** Keeps a bounded sample of all latencies. */
  #timed(elapsedMs: number): void {
    this.#mostMs = Math.max(this.#mostMs, elapsedMs);
    const at = this.#latencyCount++;
    if (at < LATENCIES) this.latenciesMs.push(elapsedMs);
    else {
      const place = Math.floor(Math.random() * at);
      if (place < LATENCIES) this.latenciesMs[place] = elapsedMs;
    }
  }

  async finish(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, DRAIN_MS);
    await Promise.race([Promise.allSettled(this.#running), late]);
    clearTimeout(timer);
    if (this.#running.size > 0) this.checker.lost("requests without an end", this.#running.size);
    await this.#pool.destroy();
  }
}

/** Calls `work` so many times a second until the time is over. */
async function pace(
  perSecond: readonly (readonly [number, () => void])[],
  untilMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const startedMs = performance.now();
  const done = perSecond.map(() => 0);
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const [at, [rate, work]] of perSecond.entries()) {
      const due = ((nowMs - startedMs) / 1_000) * rate;
      for (let count = done[at] ?? 0; count < due; count++) {
        work();
        done[at] = count + 1;
      }
    }
    if (nowMs >= untilMs || signal?.aborted === true) resolve();
  }, TICK_MS);
  await promise;
  clearInterval(timer);
}

function judge(summary: Omit<SoakSummary, "faults">): string[] {
  const { tally, errorShare, memory, suppliers } = summary;
  const faults = Object.entries(tally.wrong).map(([what, count]) => `wrong: ${what}: ${count}`);
  if (errorShare > MAX_ERROR_SHARE) {
    const kinds = Object.entries(tally.errorKinds).map(([kind, count]) => `${kind}: ${count}`);
    faults.push(`errors: ${(errorShare * 100).toFixed(3)} % of all calls, more than 0.1 % (${kinds.join("; ")})`);
  }
  if (suppliers.repeatedWrites > 0) faults.push(`writes that suppliers got twice: ${suppliers.repeatedWrites}`);
  for (const [name, { firstBytes, lastBytes }] of Object.entries(memory.isJudged ? memory.processes : {})) {
    const growth = lastBytes / firstBytes;
    if (growth > MAX_GROWTH)
      faults.push(`memory of ${name} grew by ${Math.round((growth - 1) * 100)} %, more than 20 %`);
  }
  if (tally.answers === 0) faults.push("nothing was answered");
  return faults;
}

/** The gateway under load, with the suppliers that it asks. */
interface Service extends AsyncDisposable {
  readonly port: number;
  /** Processes whose memory is judged. */
  readonly processes: Readonly<Record<string, Child<Operations>>>;
  /** Waits until the chain has settled what the suppliers served; absent where there is no chain. */
  readonly settled?: () => Promise<SupplierRelays>;
}

/** How the gateway asks, whichever way its suppliers are found. */
const rulesOf = (count: number) => ({ timeoutMs: 3_000, maxAttempts: Math.min(10, count) });
const nameOf = (at: number): string => (at === 0 ? "good" : `bad${at}`);
const endpointOf = (port: number, at: number) => ({
  operator: nameOf(at),
  urls: { json_rpc: `http://127.0.0.1:${port}` },
});

async function startStatic(ports: readonly number[]): Promise<Service> {
  const gatewayFile = join(import.meta.dirname, "..", "..", "bench", "relay", "children", "our-relay.ts");
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await startChild<OurRelayOperations>(gatewayFile));
  const eth = { endpoints: ports.map(endpointOf), ...rulesOf(ports.length) };
  const { port } = await gateway.ask("start", { suppliers: { eth } });
  const owned = stack.move();
  return { port, processes: { gateway }, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** The same back-ends, each behind a supplier of sessions of its own. */
async function startSigned(ports: readonly number[]): Promise<Service> {
  const network = await startNetwork({
    backendPorts: Object.fromEntries(ports.map((port, at) => [`soak ${nameOf(at)}`, port])),
    // Sessions are asked before these: the entry is there for its rules.
    gatewayConfig: { suppliers: { eth: { endpoints: ports.slice(0, 1).map(endpointOf), ...rulesOf(ports.length) } } },
  });
  const suppliers = network.suppliers.map((supplier, at) => [`supplier ${nameOf(at)}`, supplier] as const);
  return {
    port: network.gatewayPort,
    processes: { gateway: network.gateway, ...Object.fromEntries(suppliers) },
    settled: () => untilSettled(network),
    [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
  };
}

/** Samples the memory of processes while a soak runs. */
class MemorySampler {
  readonly #processes: Service["processes"];
  readonly #samples: Record<string, number[]> = {};

  constructor(processes: Service["processes"]) {
    this.#processes = processes;
    for (const name of Object.keys(processes)) this.#samples[name] = [];
  }

  /** Resolves with the resident bytes of all processes together. */
  async sample(): Promise<number> {
    let sumBytes = 0;
    for (const [name, process] of Object.entries(this.#processes)) {
      const { rssBytes } = await process.memory(false);
      this.#samples[name]?.push(rssBytes);
      sumBytes += rssBytes;
    }
    return sumBytes;
  }

  growth(): Record<string, ProcessGrowth> {
    const growths = Object.entries(this.#samples).map(([name, samples]) => {
      const warm = samples.slice(Math.ceil(samples.length * WARM_UP_SHARE));
      const quarter = Math.max(1, Math.floor(warm.length / 4));
      return [name, { firstBytes: median(warm.slice(0, quarter)), lastBytes: median(warm.slice(-quarter)) }] as const;
    });
    return Object.fromEntries(growths);
  }
}

/** Mixed load through a real gateway whose suppliers die, slow down and lie, all but one of them. */
export async function runSoak(options: SoakOptions): Promise<SoakSummary> {
  const { durationMs, seed, progress } = options;
  await using suppliers = await startChild<SuppliersOperations>(join(import.meta.dirname, "suppliers.ts"));
  const startMs = Date.now();
  const { ports } = await suppliers.ask("start", { count: options.suppliers, seed, startMs });
  await using service = await (options.isSigned === true ? startSigned(ports) : startStatic(ports));
  const client = new Client(options, service.port, startMs);
  const sampler = new MemorySampler(service.processes);
  const sample = async (): Promise<void> => {
    const rssBytes = await sampler.sample();
    const { tally } = client.checker;
    const wrong = Object.values(tally.wrong).reduce((sum, count) => sum + count, 0);
    progress(
      `${Math.round((Date.now() - startMs) / 1_000)} s: ${tally.answers} answers, ${tally.batchItems} batch items, ` +
        `${tally.errors} errors, ${wrong} wrong, ${Math.round(rssBytes / 1_048_576)} MiB`,
    );
  };
  let sampling: Promise<void> = Promise.resolve();
  let sampleFault: string | undefined;
  const interval = setInterval(
    () => {
      sampling = sample().catch((error: unknown) => {
        sampleFault = error instanceof Error ? error.message : "unknown";
      });
    },
    Math.min(5_000, durationMs / 20),
  );
  const loads = [
    [options.singlesPerSecond, () => client.single()],
    [options.batchesPerSecond, () => client.batch()],
  ] as const;
  await pace(loads, performance.now() + durationMs, options.signal);
  clearInterval(interval);
  await sampling;
  await client.finish();
  if (sampleFault !== undefined) throw new AppError("INTERNAL", { message: `A process ended: ${sampleFault}` });
  const { tally } = client.checker;
  const sorted = client.latenciesMs.toSorted((a, b) => a - b);
  const at = (part: number): number => Math.round((sorted[Math.floor(part * sorted.length)] ?? 0) * 10) / 10;
  const elapsedMs = Date.now() - startMs;
  const calls = tally.answers - tally.writes + tally.errors;
  const relays = await service.settled?.();
  const found = {
    seed,
    durationMs: elapsedMs,
    tally,
    errorShare: calls <= 0 ? 0 : tally.errors / calls,
    suppliers: await suppliers.ask("counted", undefined),
    latencyMs: { p50: at(0.5), p99: at(0.99), most: Math.round(client.mostMs) },
    memory: { isJudged: elapsedMs >= MIN_MEMORY_MS, processes: sampler.growth() },
    ...(relays === undefined ? {} : { relays }),
  };
  return { ...found, faults: judge(found) };
}
