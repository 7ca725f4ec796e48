import { type Address, AppError, BatchThreads, type Log, type Metrics, systemClock } from "@turnpike/base";
import { recoverSigner } from "@turnpike/crypto";
import { paymentRecoverQueue, paymentRecoverWorkerExitsTotal } from "./metrics.ts";
import { packJobs, type RecoverJob, signerAt } from "./recover-wire.ts";

interface RecoverPoolOptions {
  /** Threads; 0 works on the event loop. */
  readonly workers: number;
  /** Most signatures that wait; 10,000 by default. */
  readonly maxQueued?: number;
  /** Pause before a thread is started again that ended at once; 1,000 by default. */
  readonly restartMs?: number;
  /** What the threads run; for tests. */
  readonly script?: URL;
}

/** Recovers signers off the event loop, on threads. A lost thread fails what it had in hand, and is replaced. */
export class RecoverPool implements AsyncDisposable {
  readonly #workers: number;
  readonly #threads: BatchThreads<RecoverJob, { readonly signer: Address | undefined }>;

  constructor(opts: RecoverPoolOptions, modules: { readonly log: Log; readonly metrics: Metrics }) {
    const { log, metrics } = modules;
    this.#workers = opts.workers;
    this.#threads = new BatchThreads(
      {
        name: "signature",
        script: opts.script ?? new URL("./recover-worker.ts", import.meta.url),
        threads: opts.workers,
        maxQueued: opts.maxQueued ?? 10_000,
        // Some milliseconds of work; a part smaller than 16 is not worth a second message.
        maxBatch: 64,
        minBatch: 16,
        restartMs: opts.restartMs ?? 1_000,
      },
      {
        pack: packJobs,
        unpack: (signers, jobs) => jobs.map((_, index) => ({ signer: signerAt(signers, index) })),
        log,
        clock: systemClock,
        queued: (jobs) => metrics.set(paymentRecoverQueue, jobs),
        exited: () => metrics.count(paymentRecoverWorkerExitsTotal),
      },
    );
  }

  /**
   * Address (lower case) that made a 65-byte signature; undefined when there is none.
   * @throws AppError OVERLOADED when too many wait; SETTLEMENT_UNAVAILABLE when its thread was lost.
   */
  async recover(digest: Uint8Array, signature: Uint8Array): Promise<Address | undefined> {
    if (digest.length !== 32 || signature.length !== 65) return undefined;
    if (this.#workers === 0) return recoverSigner(digest, signature);
    const result = await this.#threads.run({ digest, signature });
    if (result.ok) return result.value.signer;
    if (result.fault === "overloaded") throw new AppError("OVERLOADED");
    throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { reason: `signature thread: ${result.fault}` } });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#threads[Symbol.asyncDispose]();
  }
}
