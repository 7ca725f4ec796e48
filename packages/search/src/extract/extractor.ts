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
const SCRIPT = new URL("./worker.ts", import.meta.url);

/**
 * Extracts pages in worker threads, one page at a time each. A page that takes too much time or memory costs its thread,
 * which is replaced, and nothing else.
 */
export class WorkerExtractor implements Extractor {
  readonly #options: ExtractorOptions;
  readonly #log: Log;
  readonly #timeoutMs: number;
  readonly #maxHeapMb: number;
  readonly #threads = new Set<Thread>();
  readonly #ending = new Set<Promise<number>>();
  readonly #waiting: Job[] = [];
  #memoryTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: ExtractorOptions, { log }: { readonly log: Log }) {
    this.#options = options;
    this.#log = log;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#maxHeapMb = options.maxHeapMb ?? 256;
  }

  async extract(page: RawPage, signal?: AbortSignal): Promise<Extracted> {
    const { maxPageBytes, maxQueued = 256 } = this.#options;
    signal?.throwIfAborted();
    if (this.#isClosed) throw new AppError("SHUTTING_DOWN");
    if (page.body.length > maxPageBytes) return { ok: false, reason: "too_large" };
    if (page.body.length === 0) return { ok: false, reason: "empty" };
    if (this.#waiting.length >= maxQueued) throw new AppError("OVERLOADED");
    const { promise, resolve, reject } = Promise.withResolvers<Extracted>();
    const job: Job = { page, resolve, reject };
    const abort = (): void => {
      const at = this.#waiting.indexOf(job);
      if (at >= 0) this.#waiting.splice(at, 1);
      // A page that is being read is left to its time limit: its thread is worth more than its time.
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", abort, { once: true });
    this.#waiting.push(job);
    this.#assign();
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const stopped = new AppError("SHUTTING_DOWN");
    for (const job of this.#waiting.splice(0)) job.reject(stopped);
    for (const thread of this.#threads) thread.job?.reject(stopped);
    for (const thread of this.#threads) this.#terminate(thread, "broken");
    await Promise.all(this.#ending);
  }

  /** Starts waiting pages on idle threads, and on new ones as far as there may be more. */
  #assign(): void {
    while (this.#waiting.length > 0) {
      const idle = [...this.#threads].find(({ job }) => job === undefined);
      if (idle === undefined && this.#threads.size >= (this.#options.workers ?? 1)) return;
      const job = this.#waiting.shift();
      if (job !== undefined) this.#run(idle ?? this.#startThread(), job);
    }
  }

  #startThread(): Thread {
    const { maxTextChars = 500_000, maxLinks = 2_000, script = SCRIPT } = this.#options;
    const limits: WorkerLimits = { maxTextChars, maxLinks };
    const worker = new Worker(script, {
      workerData: limits,
      // A page has nothing to learn from the environment, and nothing to say on the terminal.
      env: {},
      execArgv: [],
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: this.#maxHeapMb, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 },
    });
    worker.stdout.resume();
    worker.stderr.resume();
    const thread: Thread = { worker, job: undefined, id: 0, timer: undefined };
    worker.on("message", (reply: ExtractReply) => this.#onReply(thread, reply));
    worker.on("error", (error) => {
      const isMemory = Reflect.get(error as object, "code") === "ERR_WORKER_OUT_OF_MEMORY";
      if (!isMemory) this.#log.warn({ error: String(error) }, "extraction thread failed");
      this.#lose(thread, isMemory ? "too_large" : "broken");
    });
    worker.on("exit", () => this.#lose(thread, "broken"));
    worker.unref();
    this.#threads.add(thread);
    return thread;
  }

  #run(thread: Thread, job: Job): void {
    thread.job = job;
    thread.id++;
    thread.worker.ref();
    const startMs = this.#options.startMs ?? 60_000;
    thread.timer = setTimeout(() => this.#terminate(thread, "timed_out"), startMs + this.#timeoutMs);
    this.#memoryTimer ??= setInterval(() => this.#checkMemory(), MEMORY_CHECK_MS).unref();
    const { url, contentType, modified } = job.page;
    // A copy of these bytes alone: a view may lie on a much larger buffer, which would be sent with it.
    const body = new Uint8Array(job.page.body);
    const request: ExtractRequest = { id: thread.id, page: { url, contentType, modified, body } };
    thread.worker.postMessage(request, [body.buffer]);
  }

  #onReply(thread: Thread, reply: ExtractReply): void {
    if (reply.id !== thread.id || thread.job === undefined) return;
    if ("started" in reply) {
      clearTimeout(thread.timer);
      thread.timer = setTimeout(() => this.#terminate(thread, "timed_out"), this.#timeoutMs);
      return;
    }
    this.#release(thread)?.resolve(reply.extracted);
    this.#assign();
  }

  /** Makes a thread idle. Returns the page that it worked on. */
  #release(thread: Thread): Job | undefined {
    const { job } = thread;
    clearTimeout(thread.timer);
    thread.job = undefined;
    thread.worker.unref();
    if ([...this.#threads].every((other) => other.job === undefined)) {
      clearInterval(this.#memoryTimer);
      this.#memoryTimer = undefined;
    }
    return job;
  }

  /** Ends a thread that does not end its page. */
  #terminate(thread: Thread, reason: Failure): void {
    this.#lose(thread, reason);
    const ended = thread.worker.terminate();
    this.#ending.add(ended);
    void ended.finally(() => this.#ending.delete(ended));
  }

  /** Removes a thread that ends or has ended; its page has failed. */
  #lose(thread: Thread, reason: Failure): void {
    if (!this.#threads.delete(thread)) return;
    const job = this.#release(thread);
    if (job !== undefined) this.#log.debug({ reason }, "extraction thread ended with its page");
    job?.resolve({ ok: false, reason });
    if (!this.#isClosed) this.#assign();
  }

  #checkMemory(): void {
    for (const thread of this.#threads) {
      if (thread.job === undefined) continue;
      thread.worker.getHeapStatistics().then(
        ({ external_memory: bytes }) => {
          const isOver = bytes > this.#maxHeapMb * 1_048_576;
          if (isOver && this.#threads.has(thread) && thread.job !== undefined) this.#terminate(thread, "too_large");
        },
        () => {
          // The thread has ended meanwhile.
        },
      );
    }
  }
}
