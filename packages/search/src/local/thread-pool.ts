import { Worker } from "node:worker_threads";
import { AppError, type Log } from "@turnpike/base";
import type { ThreadData, ThreadReply, ThreadRequest } from "./wire.ts";

interface ThreadPoolOptions extends ThreadData {
  readonly threads: number;
  /** Longest time from a request to its answer, waiting included. */
  readonly timeoutMs: number;
  /** Most requests that wait. */
  readonly maxQueued: number;
  /** What the threads run; for tests. */
  readonly script?: URL;
}

interface Job {
  readonly request: (budgetMs: number) => ThreadRequest;
  readonly untilMs: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Guards the thread too, when the one who asked has left. */
  timer: NodeJS.Timeout | undefined;
}

interface Thread {
  readonly worker: Worker;
  job: Job | undefined;
}

const failed = (reason: string, message: string): AppError =>
  new AppError("SEARCH_ENGINE_FAILED", { message, detail: { reason } });

/** A thread gets this part of the time that is left, so that it ends by itself before it is ended. */
const PART = 0.8;

/**
 * Threads that read an index; each has one request in hand. One that is lost or takes too long fails what it had in hand,
 * and is replaced when it is needed.
 */
export class ThreadPool implements AsyncDisposable {
  readonly #opts: ThreadPoolOptions;
  readonly #log: Log;
  readonly #threads = new Set<Thread>();
  readonly #ending = new Set<Promise<unknown>>();
  readonly #waiting = new Set<Job>();
  #isClosed = false;

  /** Starts the threads. */
  constructor(opts: ThreadPoolOptions, modules: { readonly log: Log }) {
    this.#opts = opts;
    this.#log = modules.log;
    for (let n = 0; n < opts.threads; n++) this.#start();
  }

  /**
   * Asks the next free thread. Rejects with AppError SEARCH_ENGINE_FAILED (too many wait, out of time, thread lost) or
   * SEARCH_INDEX, or with the signal's reason.
   */
  async ask(request: (budgetMs: number) => ThreadRequest, signal?: AbortSignal): Promise<unknown> {
    const { timeoutMs, maxQueued } = this.#opts;
    signal?.throwIfAborted();
    if (this.#isClosed) throw failed("closed", "The local index is closed.");
    if (this.#waiting.size >= maxQueued) throw failed("queue", "Too many searches wait for the local index.");
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const job: Job = { request, untilMs: performance.now() + timeoutMs, resolve, reject, timer: undefined };
    job.timer = setTimeout(() => this.#giveUp(job), timeoutMs);
    // a thread ends what it has begun: it is bounded, and a new thread costs more
    const abort = (): void => {
      if (this.#waiting.delete(job)) clearTimeout(job.timer);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", abort, { once: true });
    this.#waiting.add(job);
    this.#next();
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const jobs = [...this.#waiting, ...[...this.#threads].flatMap(({ job }) => (job === undefined ? [] : [job]))];
    this.#waiting.clear();
    for (const job of jobs) {
      clearTimeout(job.timer);
      job.reject(failed("closed", "The local index is closed."));
    }
    await Promise.all([...this.#ending, ...[...this.#threads].map(({ worker }) => worker.terminate())]);
  }

  #start(): Thread {
    const { script = new URL("./thread.ts", import.meta.url), file, maxSnippetChars } = this.#opts;
    const workerData: ThreadData = { file, maxSnippetChars };
    const worker = new Worker(script, { workerData, resourceLimits: { maxOldGenerationSizeMb: 512 } });
    const thread: Thread = { worker, job: undefined };
    worker.on("message", (reply: ThreadReply) => {
      const { job } = thread;
      thread.job = undefined;
      worker.unref();
      clearTimeout(job?.timer);
      if (job !== undefined) settle(job, reply);
      this.#next();
    });
    worker.on("error", (error) => this.#log.error({ error: String(error) }, "search thread failed"));
    worker.on("exit", () => this.#exited(thread));
    worker.unref();
    this.#threads.add(thread);
    return thread;
  }

  #exited(thread: Thread): void {
    if (!this.#threads.delete(thread) || this.#isClosed) return;
    const { job } = thread;
    clearTimeout(job?.timer);
    this.#log.error({}, "search thread ended; another takes its place");
    job?.reject(failed("lost", "A thread of the local index was lost."));
    this.#next();
  }

  /** A thread for one more request. Those that are being ended count as well, when they are many: they may hold cores. */
  #free(): Thread | undefined {
    const idle = [...this.#threads].find((thread) => thread.job === undefined);
    if (idle !== undefined) return idle;
    const { threads } = this.#opts;
    return this.#threads.size < threads && this.#ending.size <= threads ? this.#start() : undefined;
  }

  #next(): void {
    for (const job of this.#waiting) {
      const thread = this.#isClosed ? undefined : this.#free();
      if (thread === undefined) return;
      this.#waiting.delete(job);
      thread.job = job;
      thread.worker.ref();
      thread.worker.postMessage(job.request(Math.max(1, (job.untilMs - performance.now()) * PART)));
    }
  }

  #giveUp(job: Job): void {
    this.#waiting.delete(job);
    const thread = [...this.#threads].find((one) => one.job === job);
    if (thread !== undefined) {
      this.#threads.delete(thread);
      this.#log.warn({}, "a search took too long; its thread is replaced");
      const end = thread.worker.terminate().finally(() => {
        this.#ending.delete(end);
        this.#next();
      });
      this.#ending.add(end);
    }
    job.reject(failed("late", "The local index did not answer in time."));
    this.#next();
  }
}

function settle(job: Job, reply: ThreadReply): void {
  if (reply.ok) job.resolve(reply.value);
  else job.reject(new AppError(reply.code, { message: reply.message, detail: { reason: "refused" } }));
}
