import type { Socket } from "node:net";
import { type BodyBudget, createBodyBudget } from "./body.ts";
import type { ResponseSink } from "./request.ts";

/** Bytes of one answer that is written and not sent yet. */
interface Taken {
  readonly client: string;
  bytes: number;
}

/** Part of all bytes that one client may hold, beyond its first answer. */
const CLIENT_SHARE = 0.25;

/**
 * Bytes of large answers that are written and not sent yet, because their clients do not read them. They are bounded
 * together, and for each client, so that one that reads nothing does not take the others' room.
 */
export class Unsent {
  readonly #maxBytes: () => number;
  readonly #budget: BodyBudget;
  readonly #clients = new Map<string, number>();
  readonly #connections = new WeakMap<Socket, Set<Taken>>();

  /** `maxBytes` may change. */
  constructor(maxBytes: () => number) {
    this.#maxBytes = maxBytes;
    this.#budget = createBodyBudget(maxBytes);
  }

  /**
   * Takes the bytes of an answer that is about to be written, until it is sent or its client has left. False: there are
   * none left. `client` is whom they are counted for; `isDue`: it must be written whatever there is.
   */
  hold(res: ResponseSink, bytes: number, client: string, isDue: boolean): boolean {
    const { socket } = res.req;
    // Nobody would tell that they can be given back.
    if (res.destroyed || socket.destroyed) return true;
    const held = this.#clients.get(client) ?? 0;
    if (isDue) this.#budget.hold(bytes);
    else {
      const isTooMuch = held > 0 && held + bytes > this.#maxBytes() * CLIENT_SHARE;
      if (isTooMuch || !this.#budget.take(bytes)) return false;
    }
    this.#clients.set(client, held + bytes);
    const taken: Taken = { client, bytes };
    const all = this.#of(socket);
    all.add(taken);
    res.once("close", () => {
      all.delete(taken);
      this.#give(taken);
    });
    return true;
  }

  #give(taken: Taken): void {
    const { client, bytes } = taken;
    taken.bytes = 0;
    this.#budget.give(bytes);
    const left = (this.#clients.get(client) ?? 0) - bytes;
    if (left > 0) this.#clients.set(client, left);
    else this.#clients.delete(client);
  }

  /** What a connection holds. A response that waits behind another one is not told of its end, so that is watched too. */
  #of(socket: Socket): Set<Taken> {
    const known = this.#connections.get(socket);
    if (known !== undefined) return known;
    const all = new Set<Taken>();
    this.#connections.set(socket, all);
    socket.once("close", () => {
      for (const taken of all) this.#give(taken);
      all.clear();
    });
    return all;
  }
}
