import type { SigningHandle, SigningThreads } from "@turnpike/crypto";
import { RelayRequestWriter } from "@turnpike/protocol";
import type { GatewaySession } from "./gateway-session.ts";

interface Kept {
  readonly ring: SigningHandle;
  readonly writers: Map<string, RelayRequestWriter>;
}

interface SessionSignersOptions {
  /** Most sessions whose rings are kept. */
  readonly maxSessions: number;
}

/** Signs the requests of sessions: ring, key image and what can be known before a request are made once a session. */
export class SessionSigners implements Disposable {
  readonly #options: SessionSignersOptions;
  readonly #threads: SigningThreads;
  readonly #kept = new Map<string, Kept>();

  constructor(options: SessionSignersOptions, modules: { readonly threads: SigningThreads }) {
    this.#options = options;
    this.#threads = modules.threads;
  }

  /** Bytes of a signed RelayRequest for a supplier of the session; undefined when it could not be signed in time. */
  async sign(session: GatewaySession, operatorAddress: string, payload: Uint8Array): Promise<Uint8Array | undefined> {
    const kept = this.#of(session);
    let writer = kept.writers.get(operatorAddress);
    if (writer === undefined) {
      writer = new RelayRequestWriter(session.header, operatorAddress);
      kept.writers.set(operatorAddress, writer);
    }
    const signed = await this.#threads.ringSign(kept.ring, writer.digest(payload));
    return signed.ok ? writer.finish(payload, signed.signature) : undefined;
  }

  /** Makes a session's ring before its first request. */
  warm(session: GatewaySession): void {
    this.#of(session);
  }

  #of(session: GatewaySession): Kept {
    const { sessionId } = session.header;
    const known = this.#kept.get(sessionId);
    if (known !== undefined) return known;
    const ring = this.#threads.openRing({ members: session.ring, key: session.signer.privateKey });
    const kept = { ring, writers: new Map<string, RelayRequestWriter>() };
    this.#kept.set(sessionId, kept);
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined && this.#kept.size > this.#options.maxSessions) this.#drop(oldest);
    return kept;
  }

  #drop(sessionId: string): void {
    this.#kept.get(sessionId)?.ring[Symbol.dispose]();
    this.#kept.delete(sessionId);
  }

  [Symbol.dispose](): void {
    for (const sessionId of this.#kept.keys()) this.#drop(sessionId);
  }
}
