import { createHash } from "node:crypto";
import { AppError } from "@turnpike/base";
import type { ChainEvent } from "@turnpike/chain";
import { bytesToHeight, type ChainStore } from "@turnpike/chain-store";
import { EventLoopQueue } from "../event-loop-queue.ts";
import { makeInSteps } from "../in-steps.ts";
import type { BlockReads, SearchPage, SearchResult, StoredBlock, StoredTx } from "../types.ts";
import { BLOCK_HEIGHT_KEY, TX_HASH_KEY, TX_HEIGHT_KEY } from "./event-map.ts";
import { BLOCK_INDEX, HEIGHT_BYTES, keyPrefix, TX_INDEX } from "./index-keys.ts";
import { heightFits, type IndexQuery, indexedFits, larger, readIndexQuery, smaller } from "./index-query.ts";
import { type EventsAt, type Found, IndexSearch, SEARCH_LIMITS, type SearchLimits, Work } from "./index-search.ts";
import { valueFits } from "./query.ts";

/** How a search is held back. */
export interface SearchOptions {
  readonly limits?: SearchLimits;
  /** Shared by the searches of a node: one of them goes on at a time. */
  readonly queue?: EventLoopQueue;
  /** Maximum bytes of a page with more than one item; 16 MiB by default. */
  readonly maxPageBytes?: number;
}

/**
 * A page is either whole or refused: clients of CometBFT count pages by `per_page`, and would miss what a shorter one leaves
 * out.
 */
const MAX_PAGE_BYTES = 16_777_216;
/** Bytes of JSON around the texts of an event and of an attribute. */
const EVENT_BYTES = 30;
const ATTRIBUTE_BYTES = 40;

/** What a search reads beside the index. */
export type SearchReads = Pick<BlockReads, "tx" | "block" | "results" | "latestHeightBlocks">;

// Runs a search until others should have their turn: true when there is more.
function advance(found: Iterator<Found | undefined>, take: (one: Found) => void): boolean {
  for (;;) {
    const next = found.next();
    if (next.done === true) return false;
    if (next.value === undefined) return true;
    take(next.value);
  }
}

// What of everything that fits is asked for, and how much there is.
async function paged(
  found: Iterable<Found | undefined>,
  page: SearchPage,
  queue: EventLoopQueue,
): Promise<{ places: { heightBlocks: bigint; tx: number }[]; total: number }> {
  const places: { heightBlocks: bigint; tx: number }[] = [];
  let total = 0;
  const take = ({ heightBlocks, count, txs }: Found): void => {
    const end = total + count;
    if (end > page.skip && total < page.skip + page.take) {
      const ordered = page.order === "desc" ? [...txs()].reverse() : txs();
      const from = Math.max(0, page.skip - total);
      for (const tx of ordered.slice(from, page.skip + page.take - total)) places.push({ heightBlocks, tx });
    }
    total = end;
  };
  const steps = found[Symbol.iterator]();
  for (let isMore = true; isMore; ) {
    const step = await queue.run(() => advance(steps, take));
    if (step === undefined) throw new AppError("INVALID_PARAMS", { message: "too many searches wait" });
    isMore = step;
  }
  return { places, total };
}

/** Reads a page's items in steps. @throws AppError INVALID_PARAMS when they are too large together */
async function readPage<P, T>(
  places: readonly P[],
  read: (place: P) => T | undefined,
  sizeOf: (item: T) => number,
  { queue = new EventLoopQueue(), maxPageBytes = MAX_PAGE_BYTES }: SearchOptions,
): Promise<T[]> {
  let pageBytes = 0;
  const make = (place: P): { value: T | undefined; bytes: number } => {
    const value = read(place);
    const bytes = value === undefined ? 0 : sizeOf(value);
    pageBytes += bytes;
    if (pageBytes > maxPageBytes && places.length > 1) {
      const message = `page is larger than ${maxPageBytes} bytes: request fewer items per page`;
      throw new AppError("INVALID_PARAMS", { message });
    }
    return { value, bytes };
  };
  const items = await makeInSteps(places, make, (work) => queue.run(work));
  if (items === undefined) throw new AppError("INVALID_PARAMS", { message: "too many searches wait" });
  return items.filter((item) => item !== undefined);
}

function txSize({ bytes, result }: StoredTx): number {
  let size = bytes.length + result.data.length + result.log.length;
  for (const { type, attributes } of result.events) {
    size += EVENT_BYTES + type.length;
    for (const { key, value } of attributes) size += ATTRIBUTE_BYTES + key.length + value.length;
  }
  return size;
}

// One block is kept at a time: places are asked for height by height.
function txReader(reads: SearchReads): (heightBlocks: bigint, tx: number) => StoredTx | undefined {
  let last: { readonly heightBlocks: bigint; readonly block: StoredBlock | undefined } | undefined;
  return (heightBlocks, index) => {
    if (last?.heightBlocks !== heightBlocks) last = { heightBlocks, block: reads.block(heightBlocks) };
    const bytes = last.block?.block.txs[index];
    if (bytes === undefined) return undefined;
    const hash = createHash("sha256").update(bytes).digest();
    const byHash = reads.tx(hash);
    if (byHash?.heightBlocks === heightBlocks && byHash.index === index) return byHash;
    // The same bytes stand in two blocks, and by the hash the other one is found.
    const result = reads.results(heightBlocks)?.txResults[index];
    return result === undefined ? undefined : { hash, heightBlocks, index, bytes, result };
  };
}

/**
 * Transactions that fit a query, in the order asked for. As with CometBFT's index, all conditions but those on `tx.height`
 * and `tx.hash` are met by one event of the transaction, and `=` compares texts.
 * @throws AppError INVALID_PARAMS when the query cannot be read, or has to look at too much
 */
export async function searchTxs(
  store: ChainStore,
  reads: SearchReads,
  query: string,
  page: SearchPage,
  options: SearchOptions = {},
): Promise<SearchResult<StoredTx>> {
  const { limits = SEARCH_LIMITS, queue = new EventLoopQueue() } = options;
  const asked = readIndexQuery(query, TX_HEIGHT_KEY, TX_HASH_KEY);
  if (asked.hashes.length > 0) return byHash(reads, asked, page);
  const readTx = txReader(reads);
  const eventsAt: EventsAt = (heightBlocks, tx) => readTx(heightBlocks, tx)?.result.events ?? [];
  const opts = { tables: TX_INDEX, heightKey: TX_HEIGHT_KEY, query: asked };
  const search = new IndexSearch(opts, { store, eventsAt, work: new Work(limits) });
  const { places, total } = await paged(search.found(page.order === "desc"), page, queue);
  const items = await readPage(places, ({ heightBlocks, tx }) => readTx(heightBlocks, tx), txSize, options);
  return { items, total };
}

function byHash(reads: SearchReads, query: IndexQuery, page: SearchPage): SearchResult<StoredTx> {
  const [first] = query.hashes.flatMap((condition) => (condition.op === "=" ? [condition.operand.text] : []));
  if (first === undefined) throw new AppError("INVALID_PARAMS", { message: "tx.hash is compared with = only" });
  const hash = Buffer.from(first, "hex");
  if (hash.length * 2 !== first.length) {
    const message = "error during searching for a hash in the query: encoding/hex: invalid byte";
    throw new AppError("INVALID_PARAMS", { message });
  }
  const tx = hash.length === 0 ? undefined : reads.tx(hash);
  const digits = hash.toString("hex").toUpperCase();
  const fits =
    tx !== undefined &&
    query.hashes.every((all) => valueFits(all, digits) || valueFits(all, digits.toLowerCase())) &&
    heightFits(query, tx.heightBlocks) &&
    meetsEvents(query, tx.result.events);
  const items = fits && page.skip === 0 && page.take > 0 ? [tx] : [];
  return { items, total: fits ? 1 : 0 };
}

function meetsEvents({ equal, exists, tested }: IndexQuery, events: readonly ChainEvent[]): boolean {
  if (equal.length + exists.length + tested.length === 0) return true;
  return events.some(({ type, attributes }) => {
    const some = (tag: string, fits: (value: string) => boolean): boolean =>
      attributes.some(({ key, value, index }) => index && `${type}.${key}` === tag && fits(value));
    return (
      equal.every(({ key, value }) => some(key, (own) => own === value)) &&
      exists.every((key) => some(key, () => true)) &&
      tested.every(({ key, conditions }) => some(key, (own) => indexedFits(conditions, own)))
    );
  });
}

/**
 * Blocks whose events of beginning and end fit a query, in the order asked for; rules as in {@link searchTxs}, with
 * `block.height`.
 * @throws AppError INVALID_PARAMS when the query cannot be read, or has to look at too much
 */
export async function searchBlocks(
  store: ChainStore,
  reads: SearchReads,
  query: string,
  page: SearchPage,
  options: SearchOptions = {},
): Promise<SearchResult<StoredBlock>> {
  const { limits = SEARCH_LIMITS, queue = new EventLoopQueue() } = options;
  const readBlocks = (heights: readonly bigint[]): Promise<StoredBlock[]> =>
    readPage(
      heights,
      (heightBlocks) => reads.block(heightBlocks),
      ({ sizeBytes }) => sizeBytes,
      options,
    );
  const asked = readIndexQuery(query, BLOCK_HEIGHT_KEY, undefined);
  const { equal, exists, tested, heights } = asked;
  if (equal.length + exists.length + tested.length + heights.length === 0) {
    const { items: inBounds, total } = byHeight(store, reads, asked, page);
    return { items: await readBlocks(inBounds), total };
  }
  let last: { readonly heightBlocks: bigint; readonly events: readonly ChainEvent[] } | undefined;
  const eventsAt: EventsAt = (heightBlocks) => {
    if (last?.heightBlocks !== heightBlocks) {
      last = { heightBlocks, events: reads.results(heightBlocks)?.events ?? [] };
    }
    return last.events;
  };
  const opts = { tables: BLOCK_INDEX, heightKey: BLOCK_HEIGHT_KEY, query: asked };
  const search = new IndexSearch(opts, { store, eventsAt, work: new Work(limits) });
  const { places, total } = await paged(search.found(page.order === "desc"), page, queue);
  return { items: await readBlocks(places.map(({ heightBlocks }) => heightBlocks)), total };
}

// Blocks follow each other without a gap: bounds alone need no index.
function byHeight(store: ChainStore, reads: SearchReads, query: IndexQuery, page: SearchPage): SearchResult<bigint> {
  const [first] = store.records(BLOCK_INDEX.byKey, { prefix: keyPrefix(BLOCK_HEIGHT_KEY) });
  if (first === undefined) return { items: [], total: 0 };
  const base = bytesToHeight(first[0], first[0].length - HEIGHT_BYTES);
  const latest = reads.latestHeightBlocks();
  const from = larger(query.fromHeightBlocks, base);
  const to = smaller(query.toHeightBlocks, latest);
  const total = from > to ? 0 : Number(to - from) + 1;
  const items: bigint[] = [];
  for (let n = page.skip; n < Math.min(total, page.skip + page.take); n++) {
    items.push(page.order === "asc" ? from + BigInt(n) : to - BigInt(n));
  }
  return { items, total };
}
