import type { Socket } from "node:net";
import { ByteBudget } from "./byte-budget.ts";
import type { ClientKey } from "./client-queue.ts";

/** A response of `node:http`, or one like it. */
interface ClosableResponse {
  readonly req: { readonly socket: Socket };
  readonly destroyed: boolean;
  once(event: "close", listener: () => void): unknown;
}

/** Releases the bytes of an answer; further calls do nothing. */
export type ReleaseBytes = () => void;

/** Part of all bytes that one client may hold, beyond its first answer. */
const CLIENT_SHARE = 0.25;

/**
 * Bounds the bytes of answers that wait in write buffers because their clients do not read them: together, and for each
 * client, so that one that reads nothing does not take the others' room.
 */
export class WriteBufferBudget {
  readonly #maxBytes: () => number;
  readonly #budget: ByteBudget;
  readonly #clients = new Map<string, number>();
  readonly #connections = new WeakMap<Socket, Set<ReleaseBytes>>();

  /** `maxBytes` may change. */
  constructor(maxBytes: () => number) {
    this.#maxBytes = maxBytes;
    this.#budget = new ByteBudget(maxBytes);
  }

  /**
   * Reserves the bytes of an answer until they are released; undefined when there are none left.
   * @param client key under which the client's bytes are counted; undefined: only the total bounds them
   * @param isDue true: the answer must be written in any case
   */
  reserve(bytes: number, client: ClientKey, isDue = false): ReleaseBytes | undefined {
    const held = client === undefined ? 0 : (this.#clients.get(client) ?? 0);
    if (isDue) this.#budget.forceAcquire(bytes);
    else {
      const isTooMuch = held > 0 && held + bytes > this.#maxBytes() * CLIENT_SHARE;
      if (isTooMuch || !this.#budget.acquire(bytes)) return undefined;
    }
    if (client !== undefined) this.#clients.set(client, held + bytes);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#release(bytes, client);
    };
  }

  /**
   * Acquires the bytes of an answer that is about to be written; they are released when it is sent or its client has left.
   * False: there are none left.
   */
  acquire(res: ClosableResponse, bytes: number, client: ClientKey, isDue = false): boolean {
    // No event would come to release them.
    if (res.destroyed || res.req.socket.destroyed) return true;
    const release = this.reserve(bytes, client, isDue);
    if (release === undefined) return false;
    this.releaseAfter(res, release);
    return true;
  }

  /** Releases what was reserved for an answer when it is sent or its client has left. */
  releaseAfter(res: ClosableResponse, release: ReleaseBytes): void {
    const { socket } = res.req;
    if (res.destroyed || socket.destroyed) {
      release();
      return;
    }
    const all = this.#of(socket);
    all.add(release);
    res.once("close", () => {
      all.delete(release);
      release();
    });
  }

  #release(bytes: number, client: ClientKey): void {
    this.#budget.release(bytes);
    if (client === undefined) return;
    const remaining = (this.#clients.get(client) ?? 0) - bytes;
    if (remaining > 0) this.#clients.set(client, remaining);
    else this.#clients.delete(client);
  }

  /**
   * What a connection holds. A response that waits behind another one emits no `close` when the connection ends, so the
   * connection's own is listened to as well.
   */
  #of(socket: Socket): Set<ReleaseBytes> {
    const releases = this.#connections.get(socket);
    if (releases !== undefined) return releases;
    const all = new Set<ReleaseBytes>();
    this.#connections.set(socket, all);
    socket.once("close", () => {
      for (const release of all) release();
      all.clear();
    });
    return all;
  }
}
