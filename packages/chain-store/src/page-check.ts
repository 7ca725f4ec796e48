import { closeSync, openSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type MetaPage,
  NO_PAGE,
  NODE,
  newestMeta,
  PAGE,
  PAGE_HEAD_BYTES,
  readBytes,
  readNodeAt,
  readPage,
  readTree,
  TREE_RECORD_BYTES,
  type TreeRecord,
} from "./page-layout.ts";
import { damaged, unseal } from "./sealed.ts";

/** What {@link checkPages} looked at. */
export interface PageFigures {
  /** Pages of the file that are in use. */
  readonly pages: number;
  /** Entries of all tables. */
  readonly entries: number;
}

export interface PageCheckOptions {
  readonly file: string;
  /** Tables to look at; the pages of the others are left out. */
  readonly isChecked: (table: string) => boolean;
}

export interface PageCheckModules {
  /** Called now and then; throws to end the check. */
  readonly turn?: (figures: PageFigures) => void;
}

const TURN_PAGES = 4_096;
const FIRST_PAGE = 2n;

/**
 * Walks every page of the file that the newest commit reaches, as LMDB would, and compares all of it with what LMDB writes:
 * numbers, places, order of the keys, numbers of entries and pages, pages that are free and in use at once, and the
 * sum of each value. LMDB trusts its pages: a damaged one makes it end the process, read another's memory, or find no entry
 * where there is one, and the sums of values say nothing of an entry that is not found.
 * @throws AppError CHAIN_STORE_DAMAGED
 */
export async function checkPages(opts: PageCheckOptions, { turn }: PageCheckModules = {}): Promise<PageFigures> {
  const fd = openSync(opts.file, "r");
  try {
    const meta = newestMeta(fd);
    const walk = new PageWalk(fd, meta);
    let turnAt = TURN_PAGES;
    for (const pages of walk.file(opts.isChecked)) {
      if (pages < turnAt) continue;
      turnAt = pages + TURN_PAGES;
      await nextTurn();
      turn?.(walk.figures);
    }
    return walk.figures;
  } catch (cause) {
    // A number that is out of range, where a page says what cannot be.
    throw cause instanceof RangeError ? damaged("a page of the file", cause) : cause;
  } finally {
    closeSync(fd);
  }
}

interface Counts {
  branch: bigint;
  leaf: bigint;
  overflow: bigint;
  entries: bigint;
}

// The flags are the node's, but for whether its value stands on pages of its own.
type OnEntry = (key: Buffer, value: Buffer, flags: number) => void;

interface Bounds {
  readonly from: Buffer | undefined;
  readonly to: Buffer | undefined;
}

const byBytes = (a: Buffer, b: Buffer): number => Buffer.compare(a, b);
// Keys of the list of free pages are numbers of 8 bytes.
const byNumber = (a: Buffer, b: Buffer): number => {
  const [x, y] = [a.readBigUInt64LE(), b.readBigUInt64LE()];
  return x < y ? -1 : x > y ? 1 : 0;
};

class PageWalk {
  readonly #fd: number;
  readonly #meta: MetaPage;
  readonly #used: Uint8Array;
  #pages = 0;
  #entries = 0;

  constructor(fd: number, meta: MetaPage) {
    this.#fd = fd;
    this.#meta = meta;
    // A number that cannot be is refused before memory is taken for it.
    if (meta.lastPage > 1n << 36n) throw damaged("the head of the file");
    this.#used = new Uint8Array(Number(meta.lastPage / 8n) + 1);
  }

  get figures(): PageFigures {
    return { pages: this.#pages, entries: this.#entries };
  }

  /** Walks all trees; gives the number of the pages so far after each. */
  *file(isChecked: (table: string) => boolean): Generator<number, void> {
    const { main, free } = this.#meta;
    const tables: (readonly [name: string, tree: TreeRecord])[] = [];
    yield* this.#tree(main, byBytes, (key, value, flags) => {
      // What is no table is another program's; who opens it says so.
      if (flags !== NODE.tree) return;
      if (value.length !== TREE_RECORD_BYTES) throw damaged("a table of the file");
      tables.push([key.toString("latin1").replace(/\0$/, ""), readTree(value, 0)]);
    });
    this.#checkRoot(main);
    for (const [name, tree] of tables) {
      if (tree.flags !== 0) throw damaged("a table of the file");
      if (!isChecked(name)) continue;
      yield* this.#tree(tree, byBytes, (key, value, flags) => {
        if (flags !== 0) throw damaged("a page of the file");
        unseal(name, key, value);
      });
    }
    yield* this.#tree(free, byNumber, (_, list) => this.#freePages(list));
    this.#checkRoot(free);
  }

  // Every commit changes both trees, so their roots are of the newest one: where they are not, it is another's.
  #checkRoot({ root }: TreeRecord): void {
    if (root === NO_PAGE) return;
    if (readPage(this.#fd, root, this.#meta).transaction !== this.#meta.transaction)
      throw damaged("the head of the file");
  }

  *#tree(tree: TreeRecord, order: typeof byBytes, onEntry: OnEntry): Generator<number, void> {
    const counts: Counts = { branch: 0n, leaf: 0n, overflow: 0n, entries: 0n };
    const bounds: Bounds = { from: undefined, to: undefined };
    if (tree.root !== NO_PAGE) yield* this.#page(tree.root, tree.depth, bounds, { order, onEntry, counts });
    else if (tree.depth !== 0) throw damaged("a table of the file");
    const same =
      counts.branch === tree.branchPages &&
      counts.leaf === tree.leafPages &&
      counts.overflow === tree.overflowPages &&
      counts.entries === tree.entries;
    if (!same) throw damaged("the number of a table's entries or pages");
  }

  *#page(
    number: bigint,
    depth: number,
    { from, to }: Bounds,
    how: {
      readonly order: typeof byBytes;
      readonly onEntry: OnEntry;
      readonly counts: Counts;
    },
  ): Generator<number, void> {
    const { order, onEntry, counts } = how;
    this.#use(number, 1n);
    const page = readPage(this.#fd, number, this.#meta);
    if ((page.flags === PAGE.leaf) !== (depth === 1)) throw damaged("a page of the file");
    if (page.flags === PAGE.leaf) {
      counts.leaf++;
      let last: Buffer | undefined;
      for (let n = 0; n < page.nodes; n++) {
        const node = readNodeAt(page, n);
        const { key } = node;
        const isOrdered = last === undefined ? from === undefined || order(from, key) <= 0 : order(last, key) < 0;
        if (!isOrdered || key.length === 0) throw damaged("the order of a table's entries");
        onEntry(key, this.#value(page.bytes, node, counts), node.flags & ~NODE.big);
        counts.entries++;
        last = key;
      }
      if (last !== undefined && to !== undefined && order(last, to) >= 0)
        throw damaged("the order of a table's entries");
      this.#entries += page.nodes;
      yield this.#pages;
      return;
    }
    counts.branch++;
    yield this.#pages;
    let low = from;
    for (let n = 0; n < page.nodes; n++) {
      const child = readNodeAt(page, n);
      const next = n + 1 < page.nodes ? readNodeAt(page, n + 1).key : undefined;
      if (next !== undefined && low !== undefined && order(low, next) >= 0)
        throw damaged("the order of a table's entries");
      yield* this.#page(child.page, depth - 1, { from: low, to: next ?? to }, how);
      low = next;
    }
  }

  #value(bytes: Buffer, node: ReturnType<typeof readNodeAt>, counts: Counts): Buffer {
    if ((node.flags & NODE.big) === 0) return bytes.subarray(node.dataAt, node.dataAt + node.size);
    const first = bytes.readBigUInt64LE(node.dataAt);
    const transaction = bytes.readBigUInt64LE(node.dataAt + 8);
    const pages = bytes.readBigUInt64LE(node.dataAt + 16);
    const { pageBytes } = this.#meta;
    const needed = BigInt(Math.floor((PAGE_HEAD_BYTES - 1 + node.size) / pageBytes) + 1);
    // A value that was replaced by a shorter one in the same transaction keeps all of its pages.
    if (pages < needed || transaction > this.#meta.transaction) throw damaged("a page of the file");
    this.#use(first, pages);
    counts.overflow += pages;
    return readBytes(this.#fd, first * BigInt(pageBytes) + BigInt(PAGE_HEAD_BYTES), node.size);
  }

  #use(first: bigint, count: bigint): void {
    if (first < FIRST_PAGE || first + count - 1n > this.#meta.lastPage) throw damaged("a page of the file");
    for (let at = Number(first); at < Number(first + count); at++) {
      const [byte, bit] = [at >> 3, 1 << (at & 7)];
      const before = this.#used[byte] ?? 0;
      if ((before & bit) !== 0) throw damaged("a page of the file is in use twice");
      this.#used[byte] = before | bit;
    }
    this.#pages += Number(count);
  }

  // A list: how many numbers, then each; before the first of several pages in a row stands their number, negative.
  #freePages(list: Buffer): void {
    const count = list.length >= 8 ? list.readBigUInt64LE() : NO_PAGE;
    if (count > BigInt(list.length / 8 - 1)) throw damaged("the list of free pages");
    const pages = this.#pages;
    for (let n = 1; n <= Number(count); n++) {
      const entry = list.readBigInt64LE(8 * n);
      if (entry === 0n) continue;
      if (entry > 0n) this.#use(entry, 1n);
      else if (++n <= Number(count)) this.#use(list.readBigInt64LE(8 * n), -entry);
    }
    this.#pages = pages;
  }
}
