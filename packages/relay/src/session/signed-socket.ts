import { asBuffer } from "@turnpike/base";
import { openWebSocket } from "../transport/http-socket.ts";
import type { SocketHandlers, SocketRequest, TransportFailure, TransportSocket } from "../transport/transport.ts";
import type { SessionSigners } from "./session-signers.ts";
import type { SessionChoice, SessionEndpoint, SessionSupplierSet } from "./session-supplier-set.ts";
import { readSignedFrame, type VerifyResponse } from "./signed-relay.ts";

export interface SignedSocketModules {
  readonly signers: SessionSigners;
  readonly verify: VerifyResponse;
  /** Counts a frame of the supplier, which is one relay, or why there was none. */
  readonly count: (result: string) => void;
}

/** A supplier of a session, and what is kept of it. */
export interface SocketTarget extends SessionChoice {
  readonly to: Pick<SessionEndpoint, "operatorAddress"> & { readonly set: Pick<SessionSupplierSet, "ban" | "usedUp"> };
}

/** Close code of a supplier whose share of the application's stake is used up. */
const STAKE_LIMIT = 4_002;
/** Frames, and bytes of them, that wait to be checked; a supplier that sends more is not read meanwhile. */
const MOST_UNCHECKED = 256;
const MOST_UNCHECKED_BYTES = 1_048_576;
/** What an envelope adds to a frame. */
const ENVELOPE_BYTES = 65_536;

/** Opens a WebSocket to a supplier of a session: every frame of ours is signed, every frame of the supplier's is checked. */
export async function openSignedSocket(
  target: SessionChoice & { readonly to: SessionEndpoint },
  request: SocketRequest,
  modules: SignedSocketModules,
): Promise<TransportSocket | TransportFailure> {
  const { session, to } = target;
  const { header } = session;
  const opened = await openWebSocket(
    {
      url: to.backend.url,
      headers: {
        "Target-Service-Id": header.serviceId,
        "App-Address": header.applicationAddress,
        "Rpc-Type": "2",
        "Pocket-Session-Id": header.sessionId,
        "Pocket-Session-Start-Height": `${header.sessionStartBlockHeight}`,
        "Pocket-Session-End-Height": `${header.sessionEndBlockHeight}`,
        "Pocket-Supplier-Address": to.operatorAddress,
      },
      isRaw: true,
      lookup: to.backend.lookup,
    },
    { ...request, maxMessageBytes: request.maxMessageBytes + ENVELOPE_BYTES },
  );
  return opened.ok ? new SignedSocket(opened, target, modules) : opened;
}

/** A WebSocket to a supplier of a session, over an open one that carries signed relays. */
export class SignedSocket implements TransportSocket {
  readonly ok = true;
  readonly #socket: TransportSocket;
  readonly #target: SocketTarget;
  readonly #modules: SignedSocketModules;
  /** Frames keep their order, which signing and checking do not. */
  #outgoing: Promise<void> = Promise.resolve();
  #incoming: Promise<void> = Promise.resolve();
  #waitingBytes = 0;
  #unchecked = 0;
  #uncheckedBytes = 0;
  #isPaused = false;
  #isOver = false;

  constructor(socket: TransportSocket, target: SocketTarget, modules: SignedSocketModules) {
    this.#socket = socket;
    this.#target = target;
    this.#modules = modules;
  }

  get isOpen(): boolean {
    return !this.#isOver && this.#socket.isOpen;
  }

  get bufferedBytes(): number {
    return this.#waitingBytes + this.#socket.bufferedBytes;
  }

  listen(handlers: SocketHandlers): void {
    this.#socket.listen({
      message: (bytes) => this.#receive(bytes, handlers),
      pong: () => handlers.pong(),
      closed: (code) => {
        const { to, session } = this.#target;
        if (code === STAKE_LIMIT) to.set.usedUp(session, to.operatorAddress);
        // What came before it is handed over first.
        void this.#incoming.finally(() => {
          this.#isOver = true;
          handlers.closed(code);
        });
      },
    });
  }

  send(text: string | Uint8Array): void {
    const payload = typeof text === "string" ? Buffer.from(text) : text;
    this.#waitingBytes += payload.length;
    this.#outgoing = this.#outgoing.then(() => this.#sign(payload));
  }

  async #sign(payload: Uint8Array): Promise<void> {
    const { session, to } = this.#target;
    try {
      if (!this.isOpen) return;
      const signed = await this.#modules.signers.sign(session, to.operatorAddress, payload);
      // A frame that is left out would be missed by its client: another supplier is better.
      if (signed === undefined) this.terminate();
      else if (this.#socket.isOpen) this.#socket.send(signed);
    } finally {
      this.#waitingBytes -= payload.length;
    }
  }

  #receive(bytes: Buffer, handlers: SocketHandlers): void {
    this.#unchecked++;
    this.#uncheckedBytes += bytes.length;
    if (this.#isFull) this.#socket.pause();
    this.#incoming = this.#incoming.then(async () => {
      await this.#check(bytes, handlers);
      const wasFull = this.#isFull;
      this.#unchecked--;
      this.#uncheckedBytes -= bytes.length;
      if (wasFull && !this.#isFull && !this.#isPaused && !this.#isOver) this.#socket.resume();
    });
  }

  get #isFull(): boolean {
    return this.#unchecked >= MOST_UNCHECKED || this.#uncheckedBytes >= MOST_UNCHECKED_BYTES;
  }

  async #check(bytes: Buffer, handlers: SocketHandlers): Promise<void> {
    if (this.#isOver) return;
    const { session, supplier, to } = this.#target;
    const { verify, count } = this.#modules;
    const frame = await readSignedFrame(bytes, { header: session.header, publicKey: supplier.publicKey }, verify);
    if (frame.kind === "payload") {
      count("answered");
      const { payload } = frame;
      handlers.message(asBuffer(payload));
      return;
    }
    count(frame.kind.replace("-", "_"));
    if (frame.kind === "over-limit") to.set.usedUp(session, to.operatorAddress);
    if (frame.kind === "invalid" && frame.fault !== "malformed") to.set.ban(to.operatorAddress);
    this.terminate();
  }

  ping(): void {
    this.#socket.ping();
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isFull) this.#socket.resume();
  }

  terminate(): void {
    this.#isOver = true;
    this.#socket.terminate();
  }
}
