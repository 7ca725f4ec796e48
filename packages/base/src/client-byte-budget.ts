import { ByteBudget } from "./byte-budget.ts";
import { clientKeys } from "./client-key.ts";
import type { NoPlace } from "./places.ts";

/** Part of all bytes that one client, or one payer, may hold beyond its first; those of one /48 may hold half of all. */
const CLIENT_SHARE = 0.25;
const SITE_SHARE = 0.5;

/** The bytes that one client holds of a {@link ClientByteBudget}. */
export class ClientBytes {
  readonly #budget: ClientByteBudget;
  readonly #client: readonly [string];
  #lacking: NoPlace | undefined;

  constructor(budget: ClientByteBudget, client: string) {
    this.#budget = budget;
    this.#client = [client];
  }

  /** Reason for which the latest bytes were not acquired. */
  get lacking(): NoPlace | undefined {
    return this.#lacking;
  }

  /** False, with nothing acquired, when there are too few left. */
  acquire(bytes: number): boolean {
    this.#lacking = this.#budget.acquire(this.#client, bytes);
    return this.#lacking === undefined;
  }

  release(bytes: number): void {
    this.#budget.release(this.#client, bytes);
  }
}

/** Counts bytes that are held for clients, together and for each, so that none takes the room of the others. */
export class ClientByteBudget {
  readonly #maxBytes: () => number;
  readonly #all: ByteBudget;
  readonly #heldBytes = new Map<string, number>();

  /** `maxBytes` may change. With `whole`, this is a part of that one: see {@link ByteBudget}. */
  constructor(maxBytes: () => number, whole?: ByteBudget) {
    this.#maxBytes = maxBytes;
    this.#all = new ByteBudget(maxBytes, whole);
  }

  /** Acquires bytes for all of these clients; says why not, with nothing acquired, when there are too few left. */
  acquire(clients: readonly string[], bytes: number): NoPlace | undefined {
    const names = clients.flatMap(clientKeys);
    for (const { name, shares } of names) {
      const heldBytes = this.#heldBytes.get(name) ?? 0;
      const maxBytes = this.#maxBytes() * (shares === 1 ? CLIENT_SHARE : SITE_SHARE);
      if (heldBytes > 0 && heldBytes + bytes > maxBytes) return "each";
    }
    if (!this.#all.acquire(bytes)) return "all";
    if (bytes > 0) for (const { name } of names) this.#heldBytes.set(name, (this.#heldBytes.get(name) ?? 0) + bytes);
    return undefined;
  }

  release(clients: readonly string[], bytes: number): void {
    this.#all.release(bytes);
    for (const { name } of clients.flatMap(clientKeys)) {
      const others = (this.#heldBytes.get(name) ?? 0) - bytes;
      if (others > 0) this.#heldBytes.set(name, others);
      else this.#heldBytes.delete(name);
    }
  }

  /** The part of one client. */
  of(client: string): ClientBytes {
    return new ClientBytes(this, client);
  }
}
