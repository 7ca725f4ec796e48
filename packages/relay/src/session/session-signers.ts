import type { SigningHandle, SigningThreads } from "@turnpike/crypto";
import { RelayRequestWriter } from "@turnpike/protocol";
import type { GatewaySession } from "./gateway-session.ts";

interface Entry {
  readonly ring: SigningHandle;
  /** Last height at which suppliers serve the session. */
  readonly graceEndHeight: bigint;
  readonly writers: Map<string, RelayRequestWriter>;
}

interface SessionSignersOptions {
  /** Maximum sessions with a ring; the oldest is dropped for one more. */
  readonly maxSessions: number;
}

/** Signs the requests of sessions: ring, key image and what can be known before a request are made once a session. */
export class SessionSigners implements Disposable {
  readonly #options: SessionSignersOptions;
  readonly #threads: SigningThreads;
  readonly #entries = new Map<string, Entry>();

  constructor(options: SessionSignersOptions, modules: { readonly threads: SigningThreads }) {
    this.#options = options;
    this.#threads = modules.threads;
  }

  /** Bytes of a signed RelayRequest for a supplier of the session; undefined when it could not be signed in time. */
  async sign(session: GatewaySession, operatorAddress: string, payload: Uint8Array): Promise<Uint8Array | undefined> {
    const { ring, writers } = this.#of(session);
    let writer = writers.get(operatorAddress);
    if (writer === undefined) {
      writer = new RelayRequestWriter(session.header, operatorAddress);
      writers.set(operatorAddress, writer);
    }
    const signed = await this.#threads.ringSign(ring, writer.digest(payload));
    return signed.ok ? writer.finish(payload, signed.signature) : undefined;
  }

  /** Makes a session's ring before its first request. */
  warm(session: GatewaySession): void {
    this.#of(session);
  }

  /** Drops sessions that suppliers no longer serve at a height: each has a ring, and a writer for each of its suppliers. */
  dropEnded(heightBlocks: bigint): void {
    for (const [sessionId, { graceEndHeight }] of this.#entries) {
      if (graceEndHeight < heightBlocks) this.#drop(sessionId);
    }
  }

  /** Drops all sessions: those of a chain that was restarted from genesis never end. */
  dropAll(): void {
    for (const sessionId of this.#entries.keys()) this.#drop(sessionId);
  }

  #of(session: GatewaySession): Entry {
    const { header, graceEndHeight } = session;
    const { sessionId } = header;
    const existing = this.#entries.get(sessionId);
    if (existing !== undefined) return existing;
    const ring = this.#threads.openRing({ members: session.ring, key: session.signer.privateKey });
    const entry = { ring, graceEndHeight, writers: new Map<string, RelayRequestWriter>() };
    this.#entries.set(sessionId, entry);
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size > this.#options.maxSessions) this.#drop(oldest);
    return entry;
  }

  #drop(sessionId: string): void {
    this.#entries.get(sessionId)?.ring[Symbol.dispose]();
    this.#entries.delete(sessionId);
  }

  [Symbol.dispose](): void {
    this.dropAll();
  }
}
