import { Worker } from "node:worker_threads";
import { AppError, type Log } from "@turnpike/base";
import type { Extracted, Extractor, RawPage } from "../types.ts";
import type { ExtractReply, ExtractRequest, WorkerLimits } from "./wire.ts";

export interface ExtractorOptions {
  /** Threads, started as they are needed; 1 by default. */
  readonly workers?: number;
  /** Longest time for one page; 10,000 by default. */
  readonly timeoutMs?: number;
  /** Most memory of one thread, in MiB, for its heap and again for its buffers; 256 by default. */
  readonly maxHeapMb?: number;
  /** Largest page, in bytes. Larger ones are `too_large`. */
  readonly maxPageBytes: number;
  /** Longest main text, in UTF-16 units; 500,000 by default. What follows is cut off. */
  readonly maxTextChars?: number;
  /** Most links of one page; 2,000 by default. */
  readonly maxLinks?: number;
  /** Most pages that wait; 256 by default. */
  readonly maxQueued?: number;
  /** Longest time to load a thread's libraries; 60,000 by default. */
  readonly startMs?: number;
  /** What the threads run; for tests. */
  readonly script?: URL;
}

interface Job {
  readonly page: RawPage;
  readonly resolve: (extracted: Extracted) => void;
  readonly reject: (reason: unknown) => void;
}

interface Thread {
  readonly worker: Worker;
  job: Job | undefined;
  id: number;
  timer: NodeJS.Timeout | undefined;
}

type Failure = (Extracted & { ok: false })["reason"];

/** Buffers are not part of a heap's limit: how often their size is looked at while a page is read. */
const MEMORY_CHECK_MS = 25;

/**
 * Starts threads that extract pages, one page at a time each. A page that takes too much time or memory costs its
 * thread, which is replaced, and nothing else.
 */
export function createExtractor(opts: ExtractorOptions, modules: { readonly log: Log }): Extractor {
  const { log } = modules;
  const {
    workers = 1,
    timeoutMs = 10_000,
    maxHeapMb = 256,
    maxPageBytes,
    maxTextChars = 500_000,
    maxLinks = 2_000,
    maxQueued = 256,
    startMs = 60_000,
    script = new URL("./worker.ts", import.meta.url),
  } = opts;
  const limits: WorkerLimits = { maxTextChars, maxLinks };
  const threads = new Set<Thread>();
  const ending = new Set<Promise<number>>();
  const waiting: Job[] = [];
  let memoryTimer: NodeJS.Timeout | undefined;
  let closed = false;

  function start(): Thread {
    const worker = new Worker(script, {
      workerData: limits,
      // A page has nothing to learn from the environment, and nothing to say on the terminal.
      env: {},
      execArgv: [],
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 },
    });
    worker.stdout.resume();
    worker.stderr.resume();
    const thread: Thread = { worker, job: undefined, id: 0, timer: undefined };
    worker.on("message", (reply: ExtractReply) => heard(thread, reply));
    worker.on("error", (error) => {
      const memory = Reflect.get(error as object, "code") === "ERR_WORKER_OUT_OF_MEMORY";
      if (!memory) log.warn({ error: String(error) }, "extraction thread failed");
      lost(thread, memory ? "too_large" : "broken");
    });
    worker.on("exit", () => lost(thread, "broken"));
    worker.unref();
    threads.add(thread);
    return thread;
  }

  function next(): void {
    while (waiting.length > 0) {
      const idle = [...threads].find(({ job }) => job === undefined);
      if (idle === undefined && threads.size >= workers) return;
      const job = waiting.shift();
      if (job !== undefined) give(idle ?? start(), job);
    }
  }

  function give(thread: Thread, job: Job): void {
    thread.job = job;
    thread.id++;
    thread.worker.ref();
    thread.timer = setTimeout(() => end(thread, "timed_out"), startMs + timeoutMs);
    memoryTimer ??= setInterval(checkMemory, MEMORY_CHECK_MS).unref();
    const { url, contentType, modified } = job.page;
    // A copy of these bytes alone: a view may lie on a much larger buffer, which would be sent with it.
    const body = new Uint8Array(job.page.body);
    const request: ExtractRequest = { id: thread.id, page: { url, contentType, modified, body } };
    thread.worker.postMessage(request, [body.buffer]);
  }

  function heard(thread: Thread, reply: ExtractReply): void {
    if (reply.id !== thread.id || thread.job === undefined) return;
    if ("started" in reply) {
      clearTimeout(thread.timer);
      thread.timer = setTimeout(() => end(thread, "timed_out"), timeoutMs);
      return;
    }
    release(thread)?.resolve(reply.extracted);
    next();
  }

  function release(thread: Thread): Job | undefined {
    const { job } = thread;
    clearTimeout(thread.timer);
    thread.job = undefined;
    thread.worker.unref();
    if ([...threads].every((other) => other.job === undefined)) {
      clearInterval(memoryTimer);
      memoryTimer = undefined;
    }
    return job;
  }

  /** Ends a thread that does not end its page. */
  function end(thread: Thread, reason: Failure): void {
    lost(thread, reason);
    const ended = thread.worker.terminate();
    ending.add(ended);
    void ended.finally(() => ending.delete(ended));
  }

  function lost(thread: Thread, reason: Failure): void {
    if (!threads.delete(thread)) return;
    const job = release(thread);
    if (job !== undefined) log.debug({ reason }, "extraction thread ended with its page");
    job?.resolve({ ok: false, reason });
    if (!closed) next();
  }

  function checkMemory(): void {
    for (const thread of threads) {
      if (thread.job === undefined) continue;
      thread.worker.getHeapStatistics().then(
        ({ external_memory: bytes }) => {
          if (bytes > maxHeapMb * 1_048_576 && threads.has(thread) && thread.job !== undefined)
            end(thread, "too_large");
        },
        () => {
          // The thread has ended meanwhile.
        },
      );
    }
  }

  return {
    async extract(page, signal) {
      signal?.throwIfAborted();
      if (closed) throw new AppError("SHUTTING_DOWN");
      if (page.body.length > maxPageBytes) return { ok: false, reason: "too_large" };
      if (page.body.length === 0) return { ok: false, reason: "empty" };
      if (waiting.length >= maxQueued) throw new AppError("OVERLOADED");
      const { promise, resolve, reject } = Promise.withResolvers<Extracted>();
      const job: Job = { page, resolve, reject };
      const abort = (): void => {
        const at = waiting.indexOf(job);
        if (at >= 0) waiting.splice(at, 1);
        // A page that is being read is left to its time limit: its thread is worth more than its time.
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      waiting.push(job);
      next();
      try {
        return await promise;
      } finally {
        signal?.removeEventListener("abort", abort);
      }
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      const stopped = new AppError("SHUTTING_DOWN");
      for (const job of waiting.splice(0)) job.reject(stopped);
      for (const thread of threads) thread.job?.reject(stopped);
      for (const thread of threads) end(thread, "broken");
      await Promise.all(ending);
    },
  };
}
