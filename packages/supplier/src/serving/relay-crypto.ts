import { AppError } from "@turnpike/base";
import type { SigningHandle, SigningThreads } from "@turnpike/crypto";

/** Why a request's signature does not count. `unchecked`: there was no thread for it in time. */
export type RingCheck =
  | { readonly ok: true }
  | { readonly ok: false; readonly fault: "malformed" | "non-member" | "signature" | "unchecked" };

/** Checks requests and signs answers. */
export interface RelayCrypto {
  /** The chain's whole check of a request's ring signature. @param allowed compressed keys that may stand in it */
  verifyRing(digest: Uint8Array, signature: Uint8Array, allowed: readonly Uint8Array[]): Promise<RingCheck>;
  /** The operator's signature of a response's digest, 64 bytes; undefined when there was no thread for it in time. */
  signResponse(operatorAddress: string, digest: Uint8Array): Promise<Uint8Array | undefined>;
}

/** {@link RelayCrypto} on threads, with the keys of the operators. */
export class ThreadedRelayCrypto implements RelayCrypto, Disposable {
  readonly #threads: SigningThreads;
  readonly #handles = new Map<string, SigningHandle>();

  /** @param keys private keys by address; they are copied */
  constructor(threads: SigningThreads, keys: ReadonlyMap<string, Uint8Array>) {
    this.#threads = threads;
    for (const [address, key] of keys) this.#handles.set(address, threads.openKey(key));
  }

  async verifyRing(digest: Uint8Array, signature: Uint8Array, allowed: readonly Uint8Array[]): Promise<RingCheck> {
    const verdict = await this.#threads.ringVerify(digest, signature, allowed);
    if (verdict.ok) return { ok: true };
    const { fault } = verdict;
    const isChecked = fault === "malformed" || fault === "non-member" || fault === "signature";
    return { ok: false, fault: isChecked ? fault : "unchecked" };
  }

  async signResponse(operatorAddress: string, digest: Uint8Array): Promise<Uint8Array | undefined> {
    const handle = this.#handles.get(operatorAddress);
    if (handle === undefined) throw new AppError("INTERNAL", { detail: { operatorAddress } });
    const signed = await this.#threads.ecdsaSign(handle, digest);
    return signed.ok ? signed.signature : undefined;
  }

  [Symbol.dispose](): void {
    for (const handle of this.#handles.values()) handle[Symbol.dispose]();
  }
}
