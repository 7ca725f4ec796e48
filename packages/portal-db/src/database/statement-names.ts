import type pg from "pg";
import type { KnownColumns } from "./batch.ts";

const SIGHTS_BEFORE_NAME = 3;
const MAX_TEXT = 8_192;
const MAX_SEEN = 2_000;
const MAX_NAMES = 256;
const MAX_ON_CONNECTION = 512;

/**
 * Names for the statements that come again and again: the server then keeps them parsed and planned. Clients shape the
 * text of statements, so everything is bounded: those seen a few times get a name, and when there are too many names
 * all are dropped and given anew. Each role has its own, since a plan is made for the role that it is run by.
 */
export class StatementNames {
  #seen = new Map<string, number>();
  /** By role and text: the texts of plans that are kept are not joined and hashed again. */
  readonly #names = new Map<string, Map<string, string>>();
  #count = 0;
  readonly #onConnection = new WeakMap<pg.PoolClient, Set<string>>();
  readonly #columns = new WeakMap<pg.PoolClient, KnownColumns>();
  #made = 0;

  /** The name to run a statement by on this connection; undefined for one that is seldom seen. */
  nameOf(client: pg.PoolClient, role: string, text: string): string | undefined {
    if (text.length > MAX_TEXT) return undefined;
    const name = this.#names.get(role)?.get(text) ?? this.#make(role, text);
    if (name !== undefined) this.#note(client, name);
    return name;
  }

  /** Columns of the named statements of a connection, as they become known. */
  columnsOf(client: pg.PoolClient): KnownColumns {
    const known = this.#columns.get(client) ?? new Map();
    this.#columns.set(client, known);
    return known;
  }

  /** True when a connection holds so many statements that it should be replaced. */
  isFull(client: pg.PoolClient): boolean {
    return (this.#onConnection.get(client)?.size ?? 0) >= MAX_ON_CONNECTION;
  }

  #make(role: string, text: string): string | undefined {
    const key = `${role} ${text}`;
    const sights = (this.#seen.get(key) ?? 0) + 1;
    if (sights < SIGHTS_BEFORE_NAME) {
      if (this.#seen.size >= MAX_SEEN) this.#seen.clear();
      this.#seen.set(key, sights);
      return undefined;
    }
    this.#seen.delete(key);
    if (this.#count >= MAX_NAMES) {
      this.#names.clear();
      this.#count = 0;
    }
    this.#count++;
    const name = `portal_${this.#made++}`;
    const names = this.#names.get(role);
    if (names === undefined) this.#names.set(role, new Map([[text, name]]));
    else names.set(text, name);
    return name;
  }

  #note(client: pg.PoolClient, name: string): void {
    const names = this.#onConnection.get(client);
    if (names === undefined) this.#onConnection.set(client, new Set([name]));
    else names.add(name);
  }
}
