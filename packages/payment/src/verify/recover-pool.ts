import { Worker } from "node:worker_threads";
import { type Address, AppError, type Log, type Metrics } from "@turnpike/base";
import { recoverSigner } from "@turnpike/crypto";
import { recoverQueue, recoverWorkerExits } from "./metrics.ts";
import { JOB_BYTES, type RecoverReply, type RecoverRequest, signerAt } from "./recover-wire.ts";

/** Recovers signers off the event loop. */
export interface RecoverPool extends AsyncDisposable {
  /**
   * Address (lower case) that made a 65-byte signature; undefined when there is none.
   * @throws AppError OVERLOADED when too many wait; SETTLEMENT_UNAVAILABLE when its thread was lost.
   */
  recover(digest: Uint8Array, signature: Uint8Array): Promise<Address | undefined>;
}

/** Options of {@link createRecoverPool}. */
export interface RecoverPoolOptions {
  /** Threads; 0 works on the event loop. */
  readonly workers: number;
  /** Most signatures that wait; 10,000 by default. */
  readonly maxQueued?: number;
  /** Pause before a thread is started again that ended at once; 1,000 by default. */
  readonly restartMs?: number;
  /** What the threads run; for tests. */
  readonly script?: URL;
}

interface Job {
  readonly digest: Uint8Array;
  readonly signature: Uint8Array;
  readonly resolve: (signer: Address | undefined) => void;
  readonly reject: (error: AppError) => void;
}

/** Most signatures in one message: some milliseconds of work. */
const MAX_PART = 64;

interface Thread {
  readonly worker: Worker;
  readonly startedMs: number;
  readonly batches: Map<number, readonly Job[]>;
  jobs: number;
}

const unavailable = (reason: string): AppError => new AppError("SETTLEMENT_UNAVAILABLE", { detail: { reason } });

/** Starts the threads. A lost thread fails what it had in hand, and is replaced. */
export function createRecoverPool(
  opts: RecoverPoolOptions,
  modules: { readonly log: Log; readonly metrics: Metrics },
): RecoverPool {
  const { log, metrics } = modules;
  const maxQueued = opts.maxQueued ?? 10_000;
  const restartMs = opts.restartMs ?? 1_000;
  const script = opts.script ?? new URL("./recover-worker.ts", import.meta.url);
  const threads = new Set<Thread>();
  const timers = new Set<NodeJS.Timeout>();
  const waiting: Job[] = [];
  let queued = 0;
  let nextId = 0;
  let closed = false;

  function start(): void {
    if (closed) return;
    const thread: Thread = {
      worker: new Worker(script),
      startedMs: performance.now(),
      batches: new Map(),
      jobs: 0,
    };
    const { worker } = thread;
    worker.on("message", (reply: RecoverReply) => finish(thread, reply));
    worker.on("error", (error) => log.error({ error: String(error) }, "signature thread failed"));
    worker.on("exit", () => lost(thread));
    // A thread with nothing in hand does not keep the process alive.
    worker.unref();
    threads.add(thread);
  }

  function finish(thread: Thread, reply: RecoverReply): void {
    const jobs = thread.batches.get(reply.id) ?? [];
    thread.batches.delete(reply.id);
    settle(thread, jobs);
    for (const [index, job] of jobs.entries()) job.resolve(signerAt(reply.signers, index));
    if (waiting.length > 0) flush();
  }

  function settle(thread: Thread, jobs: readonly Job[]): void {
    thread.jobs -= jobs.length;
    queued -= jobs.length;
    if (thread.jobs === 0) thread.worker.unref();
    metrics.set(recoverQueue, queued);
  }

  function lost(thread: Thread): void {
    threads.delete(thread);
    if (!closed) metrics.count(recoverWorkerExits);
    for (const jobs of thread.batches.values()) {
      settle(thread, jobs);
      for (const job of jobs) job.reject(unavailable("signature thread was lost"));
    }
    thread.batches.clear();
    if (threads.size === 0 || closed) flush();
    if (closed) return;
    log.error({}, "signature thread ended; it is started again");
    if (performance.now() - thread.startedMs > restartMs) {
      start();
      return;
    }
    const timer = setTimeout(() => {
      timers.delete(timer);
      start();
    }, restartMs);
    timer.unref();
    timers.add(timer);
  }

  /**
   * Sends what waits to the threads with the least in hand, in equal parts. A thread has one part in work and one
   * behind it: what comes meanwhile waits here and goes in fewer, larger messages.
   */
  function flush(): void {
    if (threads.size === 0) {
      queued -= waiting.length;
      for (const job of waiting.splice(0)) job.reject(unavailable("no signature thread"));
      return;
    }
    // A part smaller than 16 is not worth a second message.
    const size = Math.min(MAX_PART, Math.max(16, Math.ceil(waiting.length / threads.size)));
    while (waiting.length > 0) {
      const [next] = [...threads].filter(({ batches }) => batches.size < 2).toSorted((a, b) => a.jobs - b.jobs);
      if (next === undefined) return;
      send(next, waiting.splice(0, size));
    }
  }

  function send(thread: Thread, jobs: readonly Job[]): void {
    const bytes = new Uint8Array(jobs.length * JOB_BYTES);
    for (const [index, job] of jobs.entries()) {
      bytes.set(job.digest, index * JOB_BYTES);
      bytes.set(job.signature, index * JOB_BYTES + 32);
    }
    const request: RecoverRequest = { id: nextId++, jobs: bytes };
    if (thread.jobs === 0) thread.worker.ref();
    thread.jobs += jobs.length;
    thread.batches.set(request.id, jobs);
    metrics.set(recoverQueue, queued);
    thread.worker.postMessage(request, [bytes.buffer]);
  }

  for (let i = 0; i < opts.workers; i++) start();

  return {
    async recover(digest, signature) {
      if (digest.length !== 32 || signature.length !== 65) return undefined;
      if (opts.workers === 0) return recoverSigner(digest, signature);
      if (closed) throw unavailable("stopping");
      if (queued >= maxQueued) throw new AppError("OVERLOADED");
      queued++;
      const { promise, resolve, reject } = Promise.withResolvers<Address | undefined>();
      if (waiting.push({ digest, signature, resolve, reject }) === 1) setImmediate(flush);
      return promise;
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      for (const timer of timers) clearTimeout(timer);
      await Promise.all([...threads].map((thread) => thread.worker.terminate()));
    },
  };
}
