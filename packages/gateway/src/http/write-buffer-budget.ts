import type { Socket } from "node:net";
import { ByteBudget } from "./body.ts";
import type { ResponseSink } from "./request.ts";

/** Bytes of one answer that its client has not read yet. */
interface Buffered {
  readonly client: string;
  bytes: number;
}

/** Part of all bytes that one client may hold, beyond its first answer. */
const CLIENT_SHARE = 0.25;

/**
 * Bounds the bytes of large answers that wait in write buffers because their clients do not read them: together, and for
 * each client, so that one that reads nothing does not take the others' room.
 */
export class WriteBufferBudget {
  readonly #maxBytes: () => number;
  readonly #budget: ByteBudget;
  readonly #clients = new Map<string, number>();
  readonly #connections = new WeakMap<Socket, Set<Buffered>>();

  /** `maxBytes` may change. */
  constructor(maxBytes: () => number) {
    this.#maxBytes = maxBytes;
    this.#budget = new ByteBudget(maxBytes);
  }

  /**
   * Acquires the bytes of an answer that is about to be written; they are released when it is sent or its client has left.
   * False: there are none left. `client` is whom they are counted for; `isDue`: it must be written in any case.
   */
  acquire(res: ResponseSink, bytes: number, client: string, isDue: boolean): boolean {
    const { socket } = res.req;
    // No event would come to release them.
    if (res.destroyed || socket.destroyed) return true;
    const held = this.#clients.get(client) ?? 0;
    if (isDue) this.#budget.forceAcquire(bytes);
    else {
      const isTooMuch = held > 0 && held + bytes > this.#maxBytes() * CLIENT_SHARE;
      if (isTooMuch || !this.#budget.acquire(bytes)) return false;
    }
    this.#clients.set(client, held + bytes);
    const buffered: Buffered = { client, bytes };
    const all = this.#of(socket);
    all.add(buffered);
    res.once("close", () => {
      all.delete(buffered);
      this.#release(buffered);
    });
    return true;
  }

  #release(buffered: Buffered): void {
    const { client, bytes } = buffered;
    buffered.bytes = 0;
    this.#budget.release(bytes);
    const left = (this.#clients.get(client) ?? 0) - bytes;
    if (left > 0) this.#clients.set(client, left);
    else this.#clients.delete(client);
  }

  /**
   * What a connection holds. A response that waits behind another one emits no `close` when the connection ends, so the
   * connection's own is listened to as well.
   */
  #of(socket: Socket): Set<Buffered> {
    const known = this.#connections.get(socket);
    if (known !== undefined) return known;
    const all = new Set<Buffered>();
    this.#connections.set(socket, all);
    socket.once("close", () => {
      for (const buffered of all) this.#release(buffered);
      all.clear();
    });
    return all;
  }
}
