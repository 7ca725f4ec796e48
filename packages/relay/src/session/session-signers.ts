import { RingSigner } from "@turnpike/crypto";
import { RelayRequestWriter } from "@turnpike/protocol";
import type { GatewaySession } from "./gateway-session.ts";

interface Kept {
  readonly signer: RingSigner;
  readonly writers: Map<string, RelayRequestWriter>;
}

/** Options of {@link SessionSigners}. */
export interface SessionSignersOptions {
  /** Most sessions whose signers are kept. */
  readonly maxSessions: number;
  /** Signatures that are prepared for each session in use. */
  readonly prepared: number;
}

/** Signs the requests of sessions: ring, key image and what can be known before a request are made once a session. */
export class SessionSigners implements Disposable {
  readonly #options: SessionSignersOptions;
  readonly #kept = new Map<string, Kept>();
  #refill: NodeJS.Immediate | undefined;

  constructor(options: SessionSignersOptions) {
    this.#options = options;
  }

  /** Bytes of a signed RelayRequest for a supplier of the session. */
  sign(session: GatewaySession, operatorAddress: string, payload: Uint8Array): Uint8Array {
    const kept = this.#of(session);
    let writer = kept.writers.get(operatorAddress);
    if (writer === undefined) {
      writer = new RelayRequestWriter(session.header, operatorAddress);
      kept.writers.set(operatorAddress, writer);
    }
    const bytes = writer.finish(payload, kept.signer.sign(writer.digest(payload)));
    this.#refill ??= setImmediate(() => this.#prepare());
    return bytes;
  }

  /** Makes a session's ring before its first request. */
  warm(session: GatewaySession): void {
    this.#of(session);
    this.#refill ??= setImmediate(() => this.#prepare());
  }

  #of(session: GatewaySession): Kept {
    const { sessionId } = session.header;
    let kept = this.#kept.get(sessionId);
    if (kept === undefined) {
      const signer = new RingSigner({
        members: session.ring,
        key: session.signer.privateKey,
        maxPrepared: this.#options.prepared,
      });
      kept = { signer, writers: new Map() };
      this.#kept.set(sessionId, kept);
      const [oldest] = this.#kept.keys();
      if (oldest !== undefined && this.#kept.size > this.#options.maxSessions) this.#drop(oldest);
    }
    return kept;
  }

  /** One signature a turn: a burst of requests finds prepared ones, and no turn of the event loop gets long. */
  #prepare(): void {
    this.#refill = undefined;
    for (const { signer } of this.#kept.values()) {
      if (signer.prepared >= this.#options.prepared) continue;
      signer.prepare(1);
      this.#refill = setImmediate(() => this.#prepare());
      return;
    }
  }

  #drop(sessionId: string): void {
    this.#kept.get(sessionId)?.signer[Symbol.dispose]();
    this.#kept.delete(sessionId);
  }

  [Symbol.dispose](): void {
    clearImmediate(this.#refill);
    for (const sessionId of [...this.#kept.keys()]) this.#drop(sessionId);
  }
}
