import { Worker } from "node:worker_threads";
import { AppError, type Log } from "@turnpike/base";
import type { ThreadData, ThreadReply, ThreadRequest } from "./wire.ts";

/** Threads that read an index; each has one request in hand. */
export interface ThreadPool extends AsyncDisposable {
  /**
   * Asks the next free thread. Rejects with AppError SEARCH_ENGINE_FAILED (too many wait, out of time, thread lost) or
   * SEARCH_INDEX, or with the signal's reason.
   */
  ask(request: (budgetMs: number) => ThreadRequest, signal?: AbortSignal): Promise<unknown>;
}

export interface ThreadPoolOptions extends ThreadData {
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

/** Starts the threads. One that is lost or takes too long fails what it had in hand, and is replaced when it is needed. */
export function createThreadPool(opts: ThreadPoolOptions, modules: { readonly log: Log }): ThreadPool {
  const { log } = modules;
  const script = opts.script ?? new URL("./thread.ts", import.meta.url);
  const workerData: ThreadData = { file: opts.file, maxSnippetChars: opts.maxSnippetChars };
  const threads = new Set<Thread>();
  const ending = new Set<Promise<unknown>>();
  const waiting = new Set<Job>();
  let closed = false;

  function start(): Thread {
    const worker = new Worker(script, { workerData, resourceLimits: { maxOldGenerationSizeMb: 512 } });
    const thread: Thread = { worker, job: undefined };
    worker.on("message", (reply: ThreadReply) => {
      const { job } = thread;
      thread.job = undefined;
      worker.unref();
      clearTimeout(job?.timer);
      if (job !== undefined) settle(job, reply);
      next();
    });
    worker.on("error", (error) => log.error({ error: String(error) }, "search thread failed"));
    worker.on("exit", () => {
      if (!threads.delete(thread) || closed) return;
      const { job } = thread;
      clearTimeout(job?.timer);
      log.error({}, "search thread ended; another takes its place");
      job?.reject(failed("lost", "A thread of the local index was lost."));
      next();
    });
    worker.unref();
    threads.add(thread);
    return thread;
  }

  function settle(job: Job, reply: ThreadReply): void {
    if (reply.ok) job.resolve(reply.value);
    else job.reject(new AppError(reply.code, { message: reply.message, detail: { reason: "refused" } }));
  }

  /** A thread for one more request. Those that are being ended count as well, when they are many: they may hold cores. */
  function free(): Thread | undefined {
    const idle = [...threads].find((thread) => thread.job === undefined);
    if (idle !== undefined) return idle;
    return threads.size < opts.threads && ending.size <= opts.threads ? start() : undefined;
  }

  function next(): void {
    for (const job of waiting) {
      const thread = closed ? undefined : free();
      if (thread === undefined) return;
      waiting.delete(job);
      thread.job = job;
      thread.worker.ref();
      thread.worker.postMessage(job.request(Math.max(1, (job.untilMs - performance.now()) * PART)));
    }
  }

  function giveUp(job: Job): void {
    waiting.delete(job);
    const thread = [...threads].find((one) => one.job === job);
    if (thread !== undefined) {
      threads.delete(thread);
      log.warn({}, "a search took too long; its thread is replaced");
      const end = thread.worker.terminate().finally(() => {
        ending.delete(end);
        next();
      });
      ending.add(end);
    }
    job.reject(failed("late", "The local index did not answer in time."));
    next();
  }

  for (let n = 0; n < opts.threads; n++) start();

  return {
    async ask(request, signal) {
      signal?.throwIfAborted();
      if (closed) throw failed("closed", "The local index is closed.");
      if (waiting.size >= opts.maxQueued) throw failed("queue", "Too many searches wait for the local index.");
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      const job: Job = { request, untilMs: performance.now() + opts.timeoutMs, resolve, reject, timer: undefined };
      job.timer = setTimeout(() => giveUp(job), opts.timeoutMs);
      // a thread ends what it has begun: it is bounded, and a new thread costs more
      const abort = (): void => {
        if (waiting.delete(job)) clearTimeout(job.timer);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      waiting.add(job);
      next();
      try {
        return await promise;
      } finally {
        signal?.removeEventListener("abort", abort);
      }
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      const jobs = [...waiting, ...[...threads].flatMap(({ job }) => (job === undefined ? [] : [job]))];
      waiting.clear();
      for (const job of jobs) {
        clearTimeout(job.timer);
        job.reject(failed("closed", "The local index is closed."));
      }
      await Promise.all([...ending, ...[...threads].map(({ worker }) => worker.terminate())]);
    },
  };
}
