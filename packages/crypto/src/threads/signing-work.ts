import { curve } from "../curve.ts";
import { decodeRingSignature } from "../ring/codec.ts";
import { RingSigner } from "../ring/ring-signer.ts";
import { Rings } from "../ring/rings.ts";

/** What a thread can be asked for. */
export const JOB_KIND = { ringSign: 0, ringVerify: 1, ecdsaSign: 2, ecdsaVerify: 3 } as const;

/** One of {@link JOB_KIND}. */
export type JobKind = (typeof JOB_KIND)[keyof typeof JOB_KIND];

/** One signature to make or to check. */
export interface SigningJob {
  readonly kind: JobKind;
  /** The key or ring that signs; 0 for a check. */
  readonly handle: number;
  /** 32 bytes. */
  readonly digest: Uint8Array;
  /** A ring signature; or r, s and the public key (33 bytes); or nothing. */
  readonly rest: Uint8Array;
}

/** What is known of a handle from now on: how it signs, or that it does no more. */
export type SigningNotice =
  | { readonly handle: number; readonly members: readonly Uint8Array[]; readonly key: Uint8Array }
  | { readonly handle: number; readonly key: Uint8Array }
  | { readonly handle: number };

interface OpenRing {
  readonly signer: RingSigner;
  /** Signatures so far: as many may be prepared, so that a ring that is not used costs nothing. */
  signed: number;
}

/** Most signatures that are prepared for one ring in one thread. */
const MAX_PREPARED = 16;
const TRUE = Uint8Array.of(1);
const FALSE = Uint8Array.of(0);

/** Makes and checks signatures in the thread that it is in. */
export class SigningWork implements Disposable {
  readonly #verifier = new Rings();
  readonly #rings = new Map<number, OpenRing>();
  readonly #keys = new Map<number, Uint8Array>();

  /** Opens or closes a handle. @throws AppError as {@link RingSigner} does */
  notice(notice: SigningNotice): void {
    const { handle } = notice;
    this.#rings.get(handle)?.signer[Symbol.dispose]();
    this.#rings.delete(handle);
    this.#keys.get(handle)?.fill(0);
    this.#keys.delete(handle);
    if ("members" in notice) {
      const signer = new RingSigner({ ...notice, maxPrepared: MAX_PREPARED });
      this.#rings.set(handle, { signer, signed: 0 });
    } else if ("key" in notice) this.#keys.set(handle, Uint8Array.from(notice.key));
  }

  /** The signature, or one byte that says whether it holds; undefined when the handle is not open. */
  run({ kind, handle, digest, rest }: SigningJob): Uint8Array | undefined {
    switch (kind) {
      case JOB_KIND.ringSign: {
        const ring = this.#rings.get(handle);
        if (ring === undefined) return undefined;
        ring.signed++;
        return ring.signer.sign(digest);
      }
      case JOB_KIND.ringVerify: {
        const signature = decodeRingSignature(rest);
        return signature !== undefined && this.#verifier.verify(digest, signature) ? TRUE : FALSE;
      }
      case JOB_KIND.ecdsaSign: {
        const key = this.#keys.get(handle);
        return key === undefined ? undefined : curve.sign(digest, key).signature;
      }
      default:
        return curve.verify(digest, rest.subarray(0, 64), rest.subarray(64)) ? TRUE : FALSE;
    }
  }

  /** Prepares one signature; false when there are enough. For when there is nothing else to do. */
  prepare(): boolean {
    for (const { signer, signed } of this.#rings.values()) {
      const { prepared } = signer;
      if (prepared >= Math.min(signed, MAX_PREPARED)) continue;
      signer.prepare(1);
      return true;
    }
    return false;
  }

  /** Wipes all keys. */
  [Symbol.dispose](): void {
    for (const handle of [...this.#rings.keys(), ...this.#keys.keys()]) this.notice({ handle });
  }
}

/** Calls {@link SigningWork.prepare} whenever the thread has nothing else to do, until there is enough. */
export class IdlePreparation implements Disposable {
  readonly #work: SigningWork;
  #next: NodeJS.Immediate | undefined;

  constructor(work: SigningWork) {
    this.#work = work;
  }

  /** Goes on when the thread is idle. */
  schedule(): void {
    this.#next ??= setImmediate(() => {
      this.#next = undefined;
      if (this.#work.prepare()) this.schedule();
    });
  }

  [Symbol.dispose](): void {
    clearImmediate(this.#next);
  }
}
