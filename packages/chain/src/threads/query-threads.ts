import timers from "node:timers/promises";
import { Worker } from "node:worker_threads";
import {
  AppError,
  type ClientKey,
  ClientQueue,
  type Clock,
  type Log,
  type Metrics,
  noMetrics,
  systemClock,
} from "@turnpike/base";
import { chainQueriesWaiting, chainQueryThreadsLostTotal } from "../metrics.ts";
import type { ThreadAnswer, ThreadData, ThreadReply, ThreadRequest, ThreadWork } from "./messages.ts";
import { WorkCosts, type WorkKind } from "./work-costs.ts";

export interface QueryThreadsOptions extends ThreadData {
  /** Threads that answer. */
  readonly threads: number;
  /** Work that a thread has at one time: with more than one it goes on while the node's thread makes a block. */
  readonly maxUnderWay: number;
  /** Maximum work that waits or is under way, over all threads, without heavy work that waits. */
  readonly maxWaiting: number;
  /** What waited longer than this before its turn is refused. */
  readonly maxWaitMs: number;
}

/** A thread, as far as it is used. */
export type ThreadPort = Pick<Worker, "postMessage" | "terminate" | "on" | "ref">;

export interface QueryThreadsModules {
  readonly log: Log;
  readonly metrics?: Metrics;
  readonly clock?: Clock;
  /** Starts a thread; by default one of `query-thread.ts`. */
  readonly start?: (data: ThreadData) => ThreadPort;
}

/** Origin of work, and what a thread needs for it. */
export interface AskOptions {
  /** Key under which the client's connections are counted. Work without one is that of one client. */
  readonly client?: ClientKey;
  /** Nothing by default. */
  readonly before?: Before;
}

/** What became of work: an answer, or none because too much waits. */
export type WorkOutcome = ThreadAnswer | { readonly kind: "busy" };

/** What a thread gets right before a piece of work. @param isFresh the thread has got nothing so far */
export type Before = (isFresh: boolean) => readonly ThreadRequest[];

interface Job {
  readonly id: number;
  readonly work: ThreadWork;
  readonly before: Before;
  readonly askedMs: number;
  readonly resolve: (outcome: WorkOutcome) => void;
  readonly workKind: WorkKind | undefined;
  readonly isHeavy: boolean;
}

interface Thread {
  readonly port: ThreadPort;
  /** Under way, by id. */
  readonly jobs: Map<number, Job>;
  /** Resolves when the store is open there, or the thread has ended. */
  readonly opened: Promise<void>;
  isFresh: boolean;
}

const HEAP_MB = 512;
/** Heavy work that waits, of all clients; each takes up to some hundreds of milliseconds. */
const MAX_HEAVY_WAITING = 64;
/** A thread that starts loads its modules and opens the store: a second or two, more on a cold disk. */
const MAX_START_MS = 60_000;

function startThread(data: ThreadData): Worker {
  const worker = new Worker(new URL("./query-thread.ts", import.meta.url), {
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  worker.unref();
  return worker;
}

/**
 * Threads that read the chain's store beside the one that makes blocks. What waits is bounded in number and in time. A thread that
 * ends fails what it had, and another one is started for the next.
 */
export class QueryThreads implements AsyncDisposable {
  readonly #opts: QueryThreadsOptions;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #start: (data: ThreadData) => ThreadPort;
  readonly #threads = new Set<Thread>();
  readonly #ending = new Set<Promise<unknown>>();
  readonly #costs = new WorkCosts();
  readonly #short = new ClientQueue<Job>();
  // A thread has one of these at a time, so that short work waits for one of them at most.
  readonly #heavy = new ClientQueue<Job>();
  #nextId = 1;
  #isClosed = false;

  constructor(opts: QueryThreadsOptions, { log, metrics, clock, start }: QueryThreadsModules) {
    this.#opts = opts;
    this.#log = log;
    this.#metrics = metrics ?? noMetrics;
    this.#clock = clock ?? systemClock;
    this.#start = start ?? startThread;
    this.#metrics.count(chainQueryThreadsLostTotal, { threads: opts.name }, 0);
  }

  /** Work that waits or runs now. */
  get waiting(): number {
    let running = 0;
    for (const { jobs } of this.#threads) running += jobs.size;
    return this.#short.size + this.#heavy.size + running;
  }

  /** Starts the threads that are not there yet: otherwise the first work waits until one has loaded its modules. */
  warm(): void {
    while (!this.#isClosed && this.#threads.size < this.#opts.threads) this.#begin();
  }

  /** Starts a thread where there is none, and waits until one is open or has ended, a minute at most. Never rejects. */
  async opened(): Promise<void> {
    if (this.#isClosed) return;
    const [thread = this.#begin()] = this.#threads;
    const timer = new AbortController();
    const late = timers.setTimeout(MAX_START_MS, undefined, { signal: timer.signal, ref: false }).catch(() => {});
    await Promise.race([thread.opened, late]);
    timer.abort();
  }

  /**
   * Asks a thread, and starts one where there are fewer than may be. Clients are served round-robin. When too much waits, the last work of the
   * client with most of it is refused, which may be this one. Never rejects.
   */
  ask(work: ThreadWork, { client, before = () => [] }: AskOptions = {}): Promise<WorkOutcome> {
    if (this.#isClosed) return Promise.resolve({ kind: "busy" });
    const workKind = this.#costs.kindOf(work);
    const isHeavy = workKind !== undefined && this.#costs.isHeavy(workKind);
    const queue = isHeavy ? this.#heavy : this.#short;
    return new Promise((resolve) => {
      const askedMs = this.#clock.monotonicMs();
      queue.add(client, { id: this.#nextId++, work, before, askedMs, resolve, workKind, isHeavy });
      const isFull = isHeavy ? queue.size > MAX_HEAVY_WAITING : this.waiting - this.#heavy.size > this.#opts.maxWaiting;
      if (isFull) queue.dropLast(client)?.resolve({ kind: "busy" });
      this.#next();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const underWay = [...this.#threads].flatMap(({ jobs }) => [...jobs.values()]);
    const jobs = [...this.#short.clear(), ...this.#heavy.clear(), ...underWay];
    for (const { resolve } of jobs) resolve({ kind: "busy" });
    const ends = [...this.#threads].map(async ({ port, opened }) => {
      port.ref();
      // Opening the store takes its write lock for a moment: a thread that was ended then would hold it for ever, and the
      // thread that makes blocks would wait for it.
      await opened;
      await port.terminate();
    });
    await Promise.all([...ends, ...this.#ending]);
  }

  #begin(): Thread {
    const { folder, mapSizeBytes, version, gasPrices, maxRunMs, name } = this.#opts;
    const port = this.#start({ folder, mapSizeBytes, version, gasPrices, maxRunMs, name });
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const thread: Thread = { port, jobs: new Map(), opened, isFresh: true };
    this.#threads.add(thread);
    port.on("message", (reply: ThreadReply) => {
      if ("kind" in reply && reply.kind === "ready") open();
      else this.#replied(thread, reply);
    });
    port.on("exit", () => open());
    port.on("error", (cause) => this.#log.error({ cause, threads: this.#opts.name }, "query thread failed"));
    port.on("exit", () => this.#ended(thread));
    return thread;
  }

  #replied(thread: Thread, reply: ThreadReply): void {
    if (!("id" in reply)) return;
    const job = thread.jobs.get(reply.id);
    thread.jobs.delete(reply.id);
    if (job?.workKind !== undefined && reply.runMs !== undefined) this.#costs.ran(job.workKind, reply.runMs);
    job?.resolve(reply);
    this.#next();
  }

  #ended(thread: Thread): void {
    this.#threads.delete(thread);
    if (this.#isClosed) return;
    this.#metrics.count(chainQueryThreadsLostTotal, { threads: this.#opts.name });
    for (const { resolve } of thread.jobs.values()) {
      resolve({ kind: "fault", code: "INTERNAL", message: "the thread that answered has ended" });
    }
    this.#next();
  }

  #idle(isHeavy: boolean): Thread | undefined {
    if (this.#threads.size < this.#opts.threads) return this.#begin();
    let idlest: Thread | undefined;
    for (const thread of this.#threads) {
      if (isHeavy && [...thread.jobs.values()].some((job) => job.isHeavy)) continue;
      if (thread.jobs.size < (idlest?.jobs.size ?? this.#opts.maxUnderWay)) idlest = thread;
    }
    return idlest;
  }

  #next(): void {
    this.#metrics.set(chainQueriesWaiting, this.waiting, { threads: this.#opts.name });
    // Short work that never ends must not keep long work waiting for ever.
    while (this.#isOverdue(this.#heavy.peek()) && this.#handOn(true, this.#heavy));
    while (this.#short.size > 0 && this.#handOn(false, this.#short));
    while (this.#heavy.size > 0 && this.#handOn(true, this.#heavy));
  }

  #isOverdue(job: Job | undefined): boolean {
    return job !== undefined && this.#clock.monotonicMs() - job.askedMs >= this.#opts.maxWaitMs / 2;
  }

  /** Gives a thread the next work of a queue; false when none has room for it. */
  #handOn(isHeavy: boolean, queue: ClientQueue<Job>): boolean {
    const thread = this.#idle(isHeavy);
    const job = thread === undefined ? undefined : queue.take();
    if (thread === undefined || job === undefined) return false;
    if (this.#clock.monotonicMs() - job.askedMs > this.#opts.maxWaitMs) {
      job.resolve({ kind: "busy" });
      return true;
    }
    thread.jobs.set(job.id, job);
    for (const request of job.before(thread.isFresh)) thread.port.postMessage(request);
    thread.isFresh = false;
    const request: ThreadRequest = { kind: "work", id: job.id, work: job.work };
    thread.port.postMessage(request);
    return true;
  }
}

/** The fault of an answer, for those who answer faults by their code. */
export function faultOfThread({ code, message }: ThreadAnswer & { readonly kind: "fault" }): AppError {
  return new AppError(code === "CHAIN_STORE" || code === "CHAIN_STORE_DAMAGED" ? code : "INTERNAL", { message });
}
