import { join } from "node:path";
import { AppError } from "@turnpike/base";
import { Pool } from "undici";
import { startChild } from "../../bench/lib/child.ts";
import { median } from "../../bench/lib/stats.ts";
import type { OurRelayOperations } from "../../bench/relay/children/our-relay.ts";
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
  /** Medians of the gateway's resident bytes: the first quarter after a warm-up, and the last. */
  readonly memory: { readonly firstBytes: number; readonly lastBytes: number; readonly isJudged: boolean };
  /** What did not hold; empty when all did. */
  readonly faults: readonly string[];
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
  const growth = memory.lastBytes / memory.firstBytes;
  if (memory.isJudged && growth > MAX_GROWTH) {
    faults.push(`memory grew by ${Math.round((growth - 1) * 100)} %, more than 20 %`);
  }
  if (tally.answers === 0) faults.push("nothing was answered");
  return faults;
}

/** Mixed load through a real gateway whose suppliers die, slow down and lie, all but one of them. */
export async function runSoak(options: SoakOptions): Promise<SoakSummary> {
  const { durationMs, seed, progress } = options;
  const startMs = Date.now();
  await using suppliers = await startChild<SuppliersOperations>(join(import.meta.dirname, "suppliers.ts"));
  const { ports } = await suppliers.ask("start", { count: options.suppliers, seed, startMs });
  const gatewayFile = join(import.meta.dirname, "..", "..", "bench", "relay", "children", "our-relay.ts");
  await using gateway = await startChild<OurRelayOperations>(gatewayFile);
  const endpoints = ports.map((port, at) => ({
    operator: at === 0 ? "good" : `bad${at}`,
    urls: { json_rpc: `http://127.0.0.1:${port}` },
  }));
  const eth = { endpoints, timeoutMs: 3_000, maxAttempts: Math.min(10, ports.length) };
  const { port } = await gateway.ask("start", { suppliers: { eth } });
  const client = new Client(options, port, startMs);
  const samples: number[] = [];
  const sample = async (): Promise<void> => {
    const { rssBytes } = await gateway.memory(false);
    samples.push(rssBytes);
    const { tally } = client.checker;
    const wrong = Object.values(tally.wrong).reduce((sum, count) => sum + count, 0);
    progress(
      `${Math.round((Date.now() - startMs) / 1_000)} s: ${tally.answers} answers, ${tally.batchItems} batch items, ` +
        `${tally.errors} errors, ${wrong} wrong, ${Math.round(rssBytes / 1_048_576)} MiB`,
    );
  };
  let sampling: Promise<void> = Promise.resolve();
  let sampleFault: string | undefined;
  const sampler = setInterval(
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
  clearInterval(sampler);
  await sampling;
  await client.finish();
  if (sampleFault !== undefined) throw new AppError("INTERNAL", { message: `The gateway ended: ${sampleFault}` });
  const { tally } = client.checker;
  const sorted = client.latenciesMs.toSorted((a, b) => a - b);
  const at = (part: number): number => Math.round((sorted[Math.floor(part * sorted.length)] ?? 0) * 10) / 10;
  const elapsedMs = Date.now() - startMs;
  const warm = samples.slice(Math.ceil(samples.length * WARM_UP_SHARE));
  const quarter = Math.max(1, Math.floor(warm.length / 4));
  const calls = tally.answers - tally.writes + tally.errors;
  const found = {
    seed,
    durationMs: elapsedMs,
    tally,
    errorShare: calls <= 0 ? 0 : tally.errors / calls,
    suppliers: await suppliers.ask("counted", undefined),
    latencyMs: { p50: at(0.5), p99: at(0.99), most: Math.round(client.mostMs) },
    memory: {
      firstBytes: median(warm.slice(0, quarter)),
      lastBytes: median(warm.slice(-quarter)),
      isJudged: elapsedMs >= MIN_MEMORY_MS,
    },
  };
  return { ...found, faults: judge(found) };
}
