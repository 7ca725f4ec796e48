import { dirname } from "node:path";
import { AppError } from "@turnpike/base";
import { type Database, open, type RootDatabase } from "lmdb";
import { seal, unseal } from "./sealed.ts";
import { storeError } from "./store-errors.ts";
import type { Bytes } from "./types.ts";

const BINARY = { encoding: "binary", keyEncoding: "binary" } as const;

/** Which entries {@link Table.entries} gives; no bound where it is undefined. */
export interface TableRange {
  readonly from?: Bytes | undefined;
  readonly to?: Bytes | undefined;
  readonly reverse?: boolean;
}

interface TableOptions {
  /** The store's, for what errors say. */
  readonly folder: string;
  readonly name: string;
  readonly create: boolean;
}

/** One table of the store's file. Keys are in the order of their bytes, values are sealed. */
class Table {
  readonly #name: string;
  readonly #folder: string;
  readonly #db: Database<Buffer, Uint8Array>;

  constructor(opts: TableOptions, root: RootDatabase<Buffer, Uint8Array>) {
    this.#name = opts.name;
    this.#folder = opts.folder;
    const options: object = { ...BINARY, create: opts.create };
    const db: Database<Buffer, Uint8Array> | undefined = root.openDB<Buffer, Uint8Array>(opts.name, options);
    if (db === undefined) throw new AppError("CHAIN_STORE", { message: `The file has no table "${opts.name}".` });
    this.#db = db;
  }

  /** A copy of the value. */
  get(key: Bytes): Buffer | undefined {
    let sealed: Buffer | undefined;
    try {
      sealed = this.#db.get(key);
    } catch (cause) {
      throw this.#readError(cause);
    }
    return sealed === undefined ? undefined : unseal(this.#name, key, sealed);
  }

  /** Only within {@link Tables.write}. */
  put(key: Bytes, value: Bytes): void {
    this.putParts(key, [value]);
  }

  /** Only within {@link Tables.write}: a value that consists of these parts. */
  putParts(key: Bytes, parts: readonly Bytes[]): void {
    this.#db.putSync(key, seal(key, parts));
  }

  /** Only within {@link Tables.write}. */
  remove(key: Bytes): void {
    this.#db.removeSync(key);
  }

  /** Entries with `from` ≤ key < `to`. The cursor lives until the iterator ends: never await in between. */
  *entries(range: TableRange): Generator<readonly [key: Buffer, value: Buffer]> {
    try {
      for (const { key, value } of this.#db.getRange(rangeOf(range))) {
        const bytes = key as Buffer;
        if (isWithin(bytes, range)) yield [bytes, unseal(this.#name, bytes, value)];
      }
    } catch (cause) {
      throw this.#readError(cause);
    }
  }

  /** Keys alone, as {@link entries}. */
  *keys(range: TableRange): Generator<Buffer> {
    try {
      for (const key of this.#db.getKeys(rangeOf(range))) {
        if (isWithin(key as Buffer, range)) yield key as Buffer;
      }
    } catch (cause) {
      throw this.#readError(cause);
    }
  }

  // LMDB's own errors have a number. Any other is a mistake of ours, and stays what it is.
  #readError(cause: unknown): unknown {
    const isLmdbs = cause instanceof Error && "code" in cause && typeof cause.code === "number";
    return isLmdbs ? storeError(this.#folder, cause) : cause;
  }
}

function rangeOf({ from, to, reverse }: TableRange): object {
  const [start, end] = reverse === true ? [to, from] : [from, to];
  return {
    ...(start === undefined || start.length === 0 ? {} : { start }),
    ...(end === undefined || end.length === 0 ? {} : { end }),
    ...(reverse === true ? { reverse: true, inclusiveEnd: true } : {}),
  };
}

function isWithin(key: Buffer, { from, to }: TableRange): boolean {
  return (from === undefined || Buffer.compare(key, from) >= 0) && (to === undefined || Buffer.compare(key, to) < 0);
}

/** What is in the store's file. */
export class Tables {
  readonly #root: RootDatabase<Buffer, Uint8Array>;
  /** Stamp, newest and earliest height, root of the trie. */
  readonly meta: Table;
  /** Key → newest value. */
  readonly latest: Table;
  /** Key and height → what the block of that height replaced: `01` and the value, or `00` for none. */
  readonly replaced: Table;
  /** Height and number → keys that the block changed, for pruning. */
  readonly changed: Table;
  /** Nodes of the newest state's trie. */
  readonly nodes: Table;
  /** Height → app hash. */
  readonly hashes: Table;
  /** Name of a table, a zero byte and a key → record. */
  readonly records: Table;

  /** Opens a file, or makes a new one. A file that is not ours stays as it is. */
  constructor(opts: { readonly file: string; readonly mapSizeBytes: number; readonly create: boolean }) {
    this.#root = open({
      path: opts.file,
      noSubdir: true,
      // A commit is on the disk when it returns; the library's other way syncs later.
      overlappingSync: false,
      mapSize: opts.mapSizeBytes,
      maxDbs: 8,
      ...BINARY,
    });
    const table = (name: string): Table => {
      try {
        return new Table({ folder: dirname(opts.file), name, create: opts.create }, this.#root);
      } catch (error) {
        // Without transactions in flight it closes at once.
        void this.#root.close();
        throw error;
      }
    };
    this.meta = table("meta");
    this.latest = table("latest");
    this.replaced = table("replaced");
    this.changed = table("changed");
    this.nodes = table("nodes");
    this.hashes = table("hashes");
    this.records = table("records");
  }

  /** Writes all or nothing; on the disk when it returns. */
  write(action: () => void): void {
    // Its default: abortable, and synced. A thenable that comes back would keep the transaction open.
    this.#root.transactionSync(() => {
      action();
    });
  }

  /** Lets the next read see what other threads wrote since. */
  renewSnapshot(): void {
    this.#root.resetReadTxn();
  }

  close(): Promise<void> {
    return this.#root.close();
  }
}
