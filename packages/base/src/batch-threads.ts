import { parentPort, Worker } from "node:worker_threads";
import type { Clock } from "./clock.ts";
import { type Deadline, Deadlines } from "./deadlines.ts";
import type { Log } from "./log.ts";

export interface BatchThreadsOptions {
  /** What the threads run: it calls {@link serveBatches}. */
  readonly script: URL;
  /** One at least. */
  readonly threads: number;
  /** Most jobs that wait or are in work. */
  readonly maxQueued: number;
  /** Most jobs of one message, which are answered together. */
  readonly maxBatch: number;
  /** Fewest jobs that are worth a second message while more threads are idle. */
  readonly minBatch: number;
  /** Longest time of a job, waiting included; a thread that works on one message for so long is replaced. */
  readonly timeoutMs?: number | undefined;
  /** Pause before a thread is started again that ended at once. */
  readonly restartMs: number;
  /** Longest wait for the threads when they are closed; 5,000 by default. */
  readonly closeMs?: number | undefined;
  /** What the threads do, for the log: "signature". */
  readonly name: string;
}

/** Why a job has no result. */
export type BatchFault = "overloaded" | "late" | "lost" | "closed";

/** What became of a job. */
export type BatchResult<Result> =
  | { readonly ok: true; readonly value: Result }
  | { readonly ok: false; readonly fault: BatchFault };

/** What {@link BatchThreads} is made of. */
export interface BatchThreadsModules<Job, Result> {
  /** The bytes of one message; they are transferred. */
  readonly pack: (jobs: readonly Job[]) => Uint8Array<ArrayBuffer>;
  /** The results of one message, in the order of its jobs. */
  readonly unpack: (results: Uint8Array, jobs: readonly Job[]) => readonly Result[];
  readonly log: Log;
  readonly clock: Clock;
  /** Called with the number of jobs that wait or are in work whenever it changed. */
  readonly queued?: (jobs: number) => void;
  /** Called when a thread ended without being asked to. */
  readonly exited?: () => void;
}

interface Waiting<Job, Result> {
  readonly job: Job;
  readonly resolve: (result: BatchResult<Result>) => void;
  deadline: Deadline | undefined;
  done: boolean;
}

interface Batch<Job, Result> {
  readonly jobs: readonly Waiting<Job, Result>[];
  readonly deadline: Deadline | undefined;
}

interface Thread<Job, Result> {
  readonly worker: Worker;
  readonly startedMs: number;
  readonly batches: Map<number, Batch<Job, Result>>;
  readonly ended: Promise<void>;
  jobs: number;
}

type ToThread =
  | { readonly id: number; readonly jobs: Uint8Array }
  | { readonly notice: unknown }
  | { readonly close: true };
interface FromThread {
  readonly id: number;
  readonly results: Uint8Array;
}

/** How exact the time limits are. */
const STEP_MS = 50;
const CLOSE_MS = 5_000;

/**
 * Threads for many small jobs, several of them a message. A thread has one message in work and one behind it; what
 * comes meanwhile waits here and goes in fewer, larger messages. A lost thread fails what it had, and is replaced.
 *
 * A thread is asked to end, and never terminated: native code that is interrupted while it calls back aborts the process.
 */
export class BatchThreads<Job, Result> implements AsyncDisposable {
  readonly #opts: BatchThreadsOptions;
  readonly #modules: BatchThreadsModules<Job, Result>;
  readonly #threads = new Set<Thread<Job, Result>>();
  /** Threads that did not answer in time and have not ended yet. */
  readonly #stuck = new Set<Thread<Job, Result>>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #retained = new Map<Disposable, unknown>();
  readonly #deadlines: Deadlines;
  #waiting: Waiting<Job, Result>[] = [];
  #queued = 0;
  #nextId = 0;
  #flushing = false;
  #closed = false;

  constructor(opts: BatchThreadsOptions, modules: BatchThreadsModules<Job, Result>) {
    this.#opts = opts;
    this.#modules = modules;
    this.#deadlines = new Deadlines({ stepMs: STEP_MS }, modules);
    for (let i = 0; i < opts.threads; i++) this.#start();
  }

  /** True while no job waits or is in work. */
  get isIdle(): boolean {
    return this.#queued === 0;
  }

  /** Runs one job. It never rejects. */
  run(job: Job): Promise<BatchResult<Result>> {
    if (this.#closed) return Promise.resolve({ ok: false, fault: "closed" });
    if (this.#queued >= this.#opts.maxQueued) return Promise.resolve({ ok: false, fault: "overloaded" });
    this.#queued++;
    const { promise, resolve } = Promise.withResolvers<BatchResult<Result>>();
    const waiting: Waiting<Job, Result> = { job, resolve, deadline: undefined, done: false };
    const { timeoutMs } = this.#opts;
    if (timeoutMs !== undefined) {
      waiting.deadline = this.#deadlines.after(timeoutMs, () => this.#finish(waiting, { ok: false, fault: "late" }));
    }
    this.#waiting.push(waiting);
    if (!this.#flushing) {
      this.#flushing = true;
      setImmediate(() => this.#flush());
    }
    return promise;
  }

  /**
   * Sends a notice to every thread, before jobs that come later, and again to each that is started later. When the
   * returned handle is disposed, the threads get `last`.
   */
  retain(notice: unknown, last: unknown): Disposable {
    const handle: Disposable = {
      [Symbol.dispose]: () => {
        if (this.#retained.delete(handle)) this.#notify(last);
      },
    };
    this.#retained.set(handle, notice);
    this.#notify(notice);
    return handle;
  }

  /** Fails what waits or is in work, and waits until the threads have ended, those that do not answer for a time only. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const threads = [...this.#threads, ...this.#stuck];
    for (const thread of this.#threads) this.#leave(thread, "closed");
    this.#failWaiting("closed");
    const { promise: patience, resolve } = Promise.withResolvers<void>();
    const deadline = this.#deadlines.after(this.#opts.closeMs ?? CLOSE_MS, resolve);
    await Promise.race([patience, Promise.all(threads.map(({ ended }) => ended))]);
    this.#deadlines.cancel(deadline);
  }

  #start(): void {
    if (this.#closed) return;
    const worker = new Worker(this.#opts.script);
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const thread: Thread<Job, Result> = {
      worker,
      startedMs: this.#modules.clock.monotonicMs(),
      batches: new Map(),
      ended,
      jobs: 0,
    };
    worker.on("message", (reply: FromThread) => this.#answered(thread, reply));
    worker.on("error", (error) => {
      this.#modules.log.error({ error: String(error) }, `${this.#opts.name} thread failed`);
    });
    worker.on("exit", () => {
      resolve();
      if (this.#stuck.delete(thread)) this.#fill();
      else if (this.#threads.has(thread)) this.#lost(thread);
    });
    // A thread without jobs does not keep the process alive.
    worker.unref();
    for (const notice of this.#retained.values()) worker.postMessage({ notice } satisfies ToThread);
    this.#threads.add(thread);
  }

  #notify(notice: unknown): void {
    for (const { worker } of this.#threads) worker.postMessage({ notice } satisfies ToThread);
  }

  #answered(thread: Thread<Job, Result>, { id, results }: FromThread): void {
    const batch = this.#end(thread, id);
    if (batch === undefined) return;
    const values = this.#modules.unpack(
      results,
      batch.jobs.map(({ job }) => job),
    );
    for (const [index, waiting] of batch.jobs.entries()) {
      const value = values[index];
      this.#finish(waiting, value === undefined ? { ok: false, fault: "lost" } : { ok: true, value });
    }
    if (this.#waiting.length > 0) this.#flush();
  }

  /** A batch that is in work no more. */
  #end(thread: Thread<Job, Result>, id: number): Batch<Job, Result> | undefined {
    const batch = thread.batches.get(id);
    if (batch === undefined) return undefined;
    thread.batches.delete(id);
    if (batch.deadline !== undefined) this.#deadlines.cancel(batch.deadline);
    thread.jobs -= batch.jobs.length;
    if (thread.jobs === 0) thread.worker.unref();
    return batch;
  }

  #finish(waiting: Waiting<Job, Result>, result: BatchResult<Result>): void {
    if (waiting.done) return;
    waiting.done = true;
    if (waiting.deadline !== undefined) this.#deadlines.cancel(waiting.deadline);
    this.#queued--;
    this.#modules.queued?.(this.#queued);
    waiting.resolve(result);
  }

  #failWaiting(fault: BatchFault): void {
    for (const waiting of this.#waiting.splice(0)) this.#finish(waiting, { ok: false, fault });
  }

  /** Has nothing to do with a thread any more: fails what it had, and asks it to end. */
  #leave(thread: Thread<Job, Result>, fault: BatchFault): void {
    this.#threads.delete(thread);
    for (const id of thread.batches.keys()) {
      for (const waiting of this.#end(thread, id)?.jobs ?? []) this.#finish(waiting, { ok: false, fault });
    }
    thread.worker.postMessage({ close: true } satisfies ToThread);
  }

  /** A thread that ended without being asked to. */
  #lost(thread: Thread<Job, Result>): void {
    const { name, restartMs } = this.#opts;
    this.#leave(thread, "lost");
    this.#modules.exited?.();
    this.#modules.log.error({}, `${name} thread ended; it is started again`);
    if (this.#modules.clock.monotonicMs() - thread.startedMs > restartMs) {
      this.#fill();
      return;
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#fill();
    }, restartMs);
    timer.unref();
    this.#timers.add(timer);
    this.#fill();
  }

  /** A thread that does not answer. */
  #abandon(thread: Thread<Job, Result>): void {
    if (!this.#threads.has(thread)) return;
    this.#stuck.add(thread);
    this.#leave(thread, "lost");
    this.#modules.exited?.();
    this.#modules.log.error({ stuck: this.#stuck.size }, `${this.#opts.name} thread does not answer; it is replaced`);
    this.#fill();
  }

  /** Starts the threads that are missing, but for those that wait to be started and when too many are stuck. */
  #fill(): void {
    const { threads } = this.#opts;
    const wanted = threads - this.#timers.size - Math.max(0, this.#stuck.size - threads);
    while (!this.#closed && this.#threads.size < wanted) this.#start();
    if (this.#waiting.length > 0) this.#flush();
  }

  /** Sends what waits to the threads with the fewest jobs, in equal parts. */
  #flush(): void {
    this.#flushing = false;
    if (this.#waiting.some(({ done }) => done)) this.#waiting = this.#waiting.filter(({ done }) => !done);
    if (this.#threads.size === 0) {
      this.#failWaiting(this.#closed ? "closed" : "lost");
      return;
    }
    const { maxBatch, minBatch } = this.#opts;
    const size = Math.min(maxBatch, Math.max(minBatch, Math.ceil(this.#waiting.length / this.#threads.size)));
    while (this.#waiting.length > 0) {
      let next: Thread<Job, Result> | undefined;
      for (const thread of this.#threads) {
        if (thread.batches.size < 2 && (next === undefined || thread.jobs < next.jobs)) next = thread;
      }
      if (next === undefined) return;
      this.#send(next, this.#waiting.splice(0, size));
    }
  }

  #send(thread: Thread<Job, Result>, waiting: readonly Waiting<Job, Result>[]): void {
    const jobs = this.#modules.pack(waiting.map(({ job }) => job));
    const id = this.#nextId++;
    const { timeoutMs } = this.#opts;
    const deadline =
      timeoutMs === undefined ? undefined : this.#deadlines.after(timeoutMs, () => this.#abandon(thread));
    if (thread.jobs === 0) thread.worker.ref();
    thread.jobs += waiting.length;
    thread.batches.set(id, { jobs: waiting, deadline });
    this.#modules.queued?.(this.#queued);
    thread.worker.postMessage({ id, jobs } satisfies ToThread, [jobs.buffer]);
  }
}

/** What a thread of {@link BatchThreads} does. */
export interface BatchHandlers {
  /** Makes the bytes of the results of a message's bytes; they are transferred. */
  readonly work: (jobs: Uint8Array) => Uint8Array<ArrayBuffer>;
  /** Gets what is retained, and what ends it. */
  readonly notice?: (notice: unknown) => void;
  /** Called before the thread ends because it is not wanted any more; nothing may keep it alive then. */
  readonly close?: () => void;
}

/** Serves the jobs of {@link BatchThreads} in the thread that calls it. */
export function serveBatches({ work, notice, close }: BatchHandlers): void {
  const port = parentPort;
  port?.on("message", (message: ToThread) => {
    if ("close" in message) {
      close?.();
      port.close();
    } else if ("notice" in message) {
      notice?.(message.notice);
    } else {
      const results = work(message.jobs);
      port.postMessage({ id: message.id, results } satisfies FromThread, [results.buffer]);
    }
  });
}
