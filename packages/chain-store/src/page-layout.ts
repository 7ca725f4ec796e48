import { readSync } from "node:fs";
import { damaged } from "./sealed.ts";

/** Bytes before a page's own: number, transaction, flags, bounds (LMDB's `MDB_page_header`). */
export const PAGE_HEAD_BYTES = 24;
/** Root of a tree without entries. */
export const NO_PAGE = (1n << 64n) - 1n;
/** Flags of a page. */
export const PAGE = { branch: 1, leaf: 2, overflow: 4, meta: 8 } as const;
/** Flags of a leaf's node: its data stand on pages of their own, or are another tree's record. */
export const NODE = { big: 1, tree: 2 } as const;

const MAGIC = 0xbeefc0de;
const VERSION = 2;
const TREE_BYTES = 48;
const NODE_HEAD_BYTES = 8;
const MAX_MAP_BYTES = 1n << 44n;

/** LMDB's `MDB_db`: what a file says of one tree. */
export interface TreeRecord {
  readonly flags: number;
  readonly depth: number;
  readonly branchPages: bigint;
  readonly leafPages: bigint;
  readonly overflowPages: bigint;
  readonly entries: bigint;
  readonly root: bigint;
}

/** LMDB's `MDB_meta`: one of the two places that say what the newest commit is. */
export interface MetaPage {
  readonly pageBytes: number;
  readonly free: TreeRecord;
  readonly main: TreeRecord;
  readonly lastPage: bigint;
  readonly transaction: bigint;
}

/** One node of a page. On a branch `page` is its child; on a leaf `size` are the bytes of its value. */
export interface PageNode {
  readonly flags: number;
  readonly page: bigint;
  readonly size: number;
  readonly key: Buffer;
  /** Where its data begin, within the page. */
  readonly dataAt: number;
}

/** A page that was read, and what its head says. */
export interface ReadPage {
  readonly bytes: Buffer;
  readonly flags: number;
  readonly transaction: bigint;
  readonly nodes: number;
}

/** Reads so many bytes, all of which must be there. */
export function readBytes(fd: number, at: bigint, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const read = readSync(fd, bytes, done, length - done, at + BigInt(done));
    if (read === 0) throw damaged("the end of the file");
    done += read;
  }
  return bytes;
}

/** Reads the record of a tree. */
export function readTree(bytes: Buffer, at: number): TreeRecord {
  return {
    flags: bytes.readUInt16LE(at + 4),
    depth: bytes.readUInt16LE(at + 6),
    branchPages: bytes.readBigUInt64LE(at + 8),
    leafPages: bytes.readBigUInt64LE(at + 16),
    overflowPages: bytes.readBigUInt64LE(at + 24),
    entries: bytes.readBigUInt64LE(at + 32),
    root: bytes.readBigUInt64LE(at + 40),
  };
}

/** Bytes of a tree's record, as the data of a node. */
export const TREE_RECORD_BYTES = TREE_BYTES;

function readMeta(fd: number, slot: number, pageBytes: number): MetaPage {
  const bytes = readBytes(fd, BigInt(slot * pageBytes), PAGE_HEAD_BYTES + 144);
  const own = bytes.subarray(PAGE_HEAD_BYTES);
  const free = readTree(own, 24);
  const main = readTree(own, 72);
  const meta = { pageBytes: own.readUInt32LE(24), free, main, lastPage: own.readBigUInt64LE(120) };
  const transaction = own.readBigUInt64LE(128);
  const mapBytes = own.readBigUInt64LE(16);
  const isSound =
    bytes.readBigUInt64LE(0) === BigInt(slot) &&
    bytes.readUInt16LE(18) === PAGE.meta &&
    own.readUInt32LE(0) === MAGIC &&
    own.readUInt32LE(4) === VERSION &&
    own.readBigUInt64LE(8) === 0n &&
    mapBytes <= MAX_MAP_BYTES &&
    meta.pageBytes === pageBytes &&
    main.flags === 0;
  if (!isSound) throw damaged("the head of the file");
  return { ...meta, transaction };
}

/**
 * The newest of the two meta pages. Commits write them alternately, so that their numbers follow each other: where they do
 * not, one of them is not what was written, and which of the two is the newest is not known.
 * @throws AppError CHAIN_STORE_DAMAGED
 */
export function newestMeta(fd: number): MetaPage {
  const pageBytes = readBytes(fd, 0n, PAGE_HEAD_BYTES + 32).readUInt32LE(PAGE_HEAD_BYTES + 24);
  if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0)
    throw damaged("the head of the file");
  const [first, second] = [readMeta(fd, 0, pageBytes), readMeta(fd, 1, pageBytes)];
  const ahead = second.transaction - first.transaction;
  const inTurn = first.transaction % 2n === 0n && (ahead === 1n || ahead === -1n);
  if (!inTurn || first.free.flags !== second.free.flags) throw damaged("the head of the file");
  return ahead > 0n ? second : first;
}

/** Reads a page of a tree, and compares its head with what it must be. @throws AppError CHAIN_STORE_DAMAGED */
export function readPage(fd: number, page: bigint, { pageBytes, transaction: newest }: MetaPage): ReadPage {
  const bytes = readBytes(fd, page * BigInt(pageBytes), pageBytes);
  const transaction = bytes.readBigUInt64LE(8);
  const flags = bytes.readUInt16LE(18);
  const lower = bytes.readUInt16LE(20);
  const upper = bytes.readUInt16LE(22);
  const isSound =
    bytes.readBigUInt64LE(0) === page &&
    transaction <= newest &&
    (flags === PAGE.branch || flags === PAGE.leaf) &&
    lower % 2 === 0 &&
    lower <= upper &&
    upper <= pageBytes - PAGE_HEAD_BYTES;
  const nodes = lower / 2;
  // A branch leads to two pages at least; without entries there is no page.
  if (!isSound || nodes < (flags === PAGE.branch ? 2 : 1)) throw damaged("a page of the file");
  return { bytes, flags, transaction, nodes };
}

/** Reads a node of a page. @throws AppError CHAIN_STORE_DAMAGED when it does not stand within the page */
export function readNodeAt({ bytes, flags: kind }: ReadPage, n: number): PageNode {
  const place = bytes.readUInt16LE(PAGE_HEAD_BYTES + 2 * n);
  const at = PAGE_HEAD_BYTES + place;
  if (place < bytes.readUInt16LE(22) || place % 2 !== 0 || at + NODE_HEAD_BYTES > bytes.length)
    throw damaged("a page of the file");
  const low = bytes.readUInt32LE(at);
  const flags = bytes.readUInt16LE(at + 4);
  const keyBytes = bytes.readUInt16LE(at + 6);
  const keyAt = at + NODE_HEAD_BYTES;
  const dataAt = keyAt + keyBytes;
  const inPage = kind === PAGE.branch ? 0 : flags === NODE.big ? PAGE_HEAD_BYTES : low;
  if (dataAt + inPage > bytes.length) throw damaged("a page of the file");
  return {
    flags,
    page: kind === PAGE.branch ? BigInt(low) + (BigInt(flags) << 32n) : 0n,
    size: low,
    key: bytes.subarray(keyAt, dataAt),
    dataAt,
  };
}
