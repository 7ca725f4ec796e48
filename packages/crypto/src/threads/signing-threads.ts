import {
  type BatchFault,
  type BatchResult,
  BatchThreads,
  type Clock,
  type Log,
  silentLog,
  systemClock,
} from "@turnpike/base";
import { cosmosPublicKey } from "../cosmos/signatures.ts";
import { sha256 } from "../hash.ts";
import { decodeRingSignature } from "../ring/codec.ts";
import { isWithin, type RingVerdict } from "../ring/rings.ts";
import { packJobs, unpackResults } from "./signing-wire.ts";
import { IdlePreparation, JOB_KIND, type SigningJob, type SigningNotice, SigningWork } from "./signing-work.ts";

export interface SigningThreadsOptions {
  /** 0 signs and checks on the event loop alone. */
  readonly threads: number;
  /** Most signatures that wait or are in work; 4,096 by default. */
  readonly maxQueued?: number;
  /** Longest time of one, waiting included; 2,000 by default. */
  readonly timeoutMs?: number;
  /** Most signatures of one message to a thread; 16 by default, some milliseconds of work. */
  readonly maxBatch?: number;
  /** Pause before a thread is started again that ended at once; 1,000 by default. */
  readonly restartMs?: number;
  /** What the threads run; for tests. */
  readonly script?: URL;
}

export interface SigningThreadsModules {
  readonly log?: Log;
  readonly clock?: Clock;
  /** Called with the number of signatures that wait or are in work whenever it changed. */
  readonly queued?: (signatures: number) => void;
  /** Called when a thread ended without being asked to. */
  readonly exited?: () => void;
}

/** Why a signature was neither made nor checked: it says nothing of the signature. */
export type SigningFault = BatchFault | "failed";

/** A signature that was made, or why not. */
export type Signed =
  | { readonly ok: true; readonly signature: Uint8Array }
  | { readonly ok: false; readonly fault: SigningFault };

/** What the check of an ECDSA signature found; `signature` alone says that it does not hold. */
export type EcdsaVerdict = { readonly ok: true } | { readonly ok: false; readonly fault: "signature" | SigningFault };

/** A key that the threads have, or a ring with the key of a member; it is wiped when it is disposed and its last signature has ended. */
export interface SigningHandle extends Disposable {
  readonly id: number;
}

interface OpenHandle {
  /** Signatures that are being made. */
  inFlight: number;
  /** Wipes the key, here and in the threads. */
  readonly close: () => void;
}

/** Most members of a ring that the event loop works on while there are threads: a ring of 256 takes it 66 ms. */
const MOST_INLINE_MEMBERS = 4;
const MOST_INLINE_BYTES = 69 + 65 * MOST_INLINE_MEMBERS;
const NOTHING = new Uint8Array(0);
const KEY_BYTES = 33;
const ECDSA_BYTES = 64;

/**
 * Ring and ECDSA signatures on threads, so that many at once do not hold up the event loop. While the threads have
 * nothing to do, the event loop makes one in each of its iterations by itself: the way to a thread and back takes as long as
 * a signature. A key goes to the threads once, with its handle. No promise rejects: a signature that was not made in
 * time, or whose thread was lost, is a fault.
 */
export class SigningThreads implements AsyncDisposable {
  readonly #threads: BatchThreads<SigningJob, Uint8Array> | undefined;
  readonly #inline = new SigningWork();
  readonly #idle = new IdlePreparation(this.#inline);
  /** Those that are not disposed, by id. */
  readonly #open = new Map<number, OpenHandle>();
  /** Rings that are too large for the event loop. */
  readonly #large = new Set<number>();
  #nextId = 1;
  #ranInline = false;
  #closed = false;

  constructor(opts: SigningThreadsOptions, modules: SigningThreadsModules = {}) {
    const { threads, maxQueued = 4_096, timeoutMs = 2_000, maxBatch = 16, restartMs = 1_000 } = opts;
    if (threads === 0) return;
    const script = opts.script ?? new URL("./signing-thread.ts", import.meta.url);
    this.#threads = new BatchThreads(
      { name: "signing", script, threads, maxQueued, timeoutMs, maxBatch, minBatch: 1, restartMs },
      {
        ...modules,
        pack: packJobs,
        unpack: unpackResults,
        log: modules.log ?? silentLog,
        clock: modules.clock ?? systemClock,
      },
    );
  }

  /**
   * Makes a ring known, with the private key of one of its members.
   * @throws AppError CONFIG_INVALID or INTERNAL as `RingSigner` does
   */
  openRing(ring: { readonly members: readonly Uint8Array[]; readonly key: Uint8Array }): SigningHandle {
    return this.#openHandle({ members: ring.members.map((member) => Uint8Array.from(member)), key: ring.key });
  }

  /** Makes a private key known. @throws AppError CONFIG_INVALID when it is none */
  openKey(key: Uint8Array): SigningHandle {
    cosmosPublicKey(key);
    return this.#openHandle({ key });
  }

  /** Signs a 32-byte digest for the ring of a handle of {@link openRing}: 69 + 65n bytes. */
  async ringSign(ring: SigningHandle, digest: Uint8Array): Promise<Signed> {
    return this.#sign({ kind: JOB_KIND.ringSign, handle: ring.id, digest, rest: NOTHING });
  }

  /** Signs bytes as `cosmosSign` does, with the key of a handle of {@link openKey}: r and s in 64 bytes. */
  async ecdsaSign(key: SigningHandle, message: Uint8Array): Promise<Signed> {
    return this.#sign({ kind: JOB_KIND.ecdsaSign, handle: key.id, digest: sha256(message), rest: NOTHING });
  }

  /** `Rings.verifyWithin`: bytes that are malformed or of non-members are refused at once. */
  async ringVerify(
    digest: Uint8Array,
    bytes: Uint8Array,
    allowed: readonly Uint8Array[],
  ): Promise<RingVerdict | { readonly ok: false; readonly fault: SigningFault }> {
    const signature = decodeRingSignature(bytes);
    if (signature === undefined || digest.length !== 32) return { ok: false, fault: "malformed" };
    if (!isWithin(signature, allowed)) return { ok: false, fault: "non-member" };
    const { length } = signature.members;
    const result = await this.#run({
      kind: JOB_KIND.ringVerify,
      handle: 0,
      digest,
      rest: bytes.subarray(0, 69 + 65 * length),
    });
    if (!result.ok) return result;
    return result.value[0] === 1 ? { ok: true, signature } : { ok: false, fault: "signature" };
  }

  /** `cosmosVerify`. */
  async ecdsaVerify(message: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): Promise<EcdsaVerdict> {
    if (signature.length !== ECDSA_BYTES || publicKey.length !== KEY_BYTES) return { ok: false, fault: "signature" };
    const rest = new Uint8Array(ECDSA_BYTES + KEY_BYTES);
    rest.set(signature, 0);
    rest.set(publicKey, ECDSA_BYTES);
    const result = await this.#run({ kind: JOB_KIND.ecdsaVerify, handle: 0, digest: sha256(message), rest });
    if (!result.ok) return result;
    return result.value[0] === 1 ? { ok: true } : { ok: false, fault: "signature" };
  }

  /** Ends the threads. What waits or is in work is a fault; keys are wiped. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#idle[Symbol.dispose]();
    this.#inline[Symbol.dispose]();
    await this.#threads?.[Symbol.asyncDispose]();
  }

  #openHandle(secret: { readonly members?: readonly Uint8Array[]; readonly key: Uint8Array }): SigningHandle {
    const id = this.#nextId++;
    // A copy of our own: threads that are started later get it again.
    const key = Uint8Array.from(secret.key);
    const notice: SigningNotice = { ...secret, handle: id, key };
    // Its faults are the caller's: they are found here, and not in a thread.
    this.#inline.notice(notice);
    if (secret.members !== undefined && secret.members.length > MOST_INLINE_MEMBERS) this.#large.add(id);
    const retained = this.#threads?.retain(notice, { handle: id } satisfies SigningNotice);
    const close = (): void => {
      key.fill(0);
      this.#large.delete(id);
      this.#inline.notice({ handle: id });
      retained?.[Symbol.dispose]();
    };
    const handle: OpenHandle = { inFlight: 0, close };
    this.#open.set(id, handle);
    return {
      id,
      [Symbol.dispose]: () => {
        if (this.#open.delete(id) && handle.inFlight === 0) close();
      },
    };
  }

  /** A handle that is disposed meanwhile is held until its signatures have ended: their relays are under way. */
  async #sign(job: SigningJob): Promise<Signed> {
    const handle = this.#open.get(job.handle);
    if (handle === undefined) return { ok: false, fault: this.#closed ? "closed" : "failed" };
    handle.inFlight++;
    try {
      const result = await this.#run(job);
      return result.ok ? { ok: true, signature: result.value } : result;
    } finally {
      handle.inFlight--;
      if (handle.inFlight === 0 && !this.#open.has(job.handle)) handle.close();
    }
  }

  async #run(job: SigningJob): Promise<BatchResult<Uint8Array> | { readonly ok: false; readonly fault: "failed" }> {
    if (job.digest.length !== 32) return { ok: false, fault: "failed" };
    if (this.#threads === undefined || this.#isTurnFree(this.#threads, job)) return this.#runInline(job);
    const result = await this.#threads.run(job);
    return result.ok && result.value.length === 0 ? { ok: false, fault: "failed" } : result;
  }

  /** Whether the event loop may run a job by itself: a short one, and one a turn, so that a burst goes to the threads. */
  #isTurnFree(threads: BatchThreads<SigningJob, Uint8Array>, { handle, rest }: SigningJob): boolean {
    if (this.#ranInline || !threads.isIdle || rest.length > MOST_INLINE_BYTES || this.#large.has(handle)) return false;
    this.#ranInline = true;
    setImmediate(() => {
      this.#ranInline = false;
    });
    return true;
  }

  #runInline(job: SigningJob): BatchResult<Uint8Array> | { readonly ok: false; readonly fault: "failed" } {
    if (this.#closed) return { ok: false, fault: "closed" };
    try {
      const value = this.#inline.run(job);
      if (job.kind === JOB_KIND.ringSign) this.#idle.schedule();
      return value === undefined ? { ok: false, fault: "failed" } : { ok: true, value };
    } catch {
      return { ok: false, fault: "failed" };
    }
  }
}
