import { type Bytes, bytesToHeight, type ChainStore, heightToBytes } from "@turnpike/chain-store";
import { type Block, type Commit, decodeBlock, decodeCommit, type ValidatorSet } from "@turnpike/cometbft";
import { cometTypes, createMessage, decodeMessage, encodeMessage } from "@turnpike/proto";
import { EventLoopQueue } from "../event-loop-queue.ts";
import { searchBlocks, searchTxs } from "../indexing/search.ts";
import { SmallCache } from "../mempool/small-cache.ts";
import type { BlockReads, BlockResults, SearchPage, SearchResult, StoredBlock, StoredTx } from "../types.ts";
import { type BlockMark, COMMIT_KEY, readMark } from "./block-records.ts";
import { damagedRecord } from "./record-errors.ts";
import { decodeOutline, decodeTxResult } from "./result-codec.ts";
import { decodeValidatorSet } from "./set-codec.ts";
import { pairAt, pairsOfBlock } from "./tx-groups.ts";
import { readPlace, TABLES } from "./tx-places.ts";

export interface BlockStoreModules {
  readonly store: ChainStore;
  /** First height of the chain, and the newest committed one (0 before the first). */
  readonly heights: { readonly initialBlocks: bigint; latestBlocks(): bigint };
  /** Resolves when all events up to the newest block are indexed; without it they are. */
  readonly indexed?: () => Promise<void>;
  /** Sets that are known before the first block is written. */
  readonly firstValidators: (heightBlocks: bigint) => ValidatorSet | undefined;
}

const MAX_HEIGHT = (1n << 63n) - 1n;

/** {@link BlockReads} over the records that the engine writes. Every block that is read is checked against its own hashes. */
export class BlockStore implements BlockReads {
  readonly #store: ChainStore;
  readonly #heights: BlockStoreModules["heights"];
  readonly #firstValidators: BlockStoreModules["firstValidators"];
  readonly #indexed: () => Promise<void>;
  readonly #queue = new EventLoopQueue();
  readonly #cache = new SmallCache<bigint, StoredBlock>({ maxEntries: 64, maxBytes: 16_777_216 });

  constructor({ store, heights, firstValidators, indexed }: BlockStoreModules) {
    this.#indexed = indexed ?? (async () => undefined);
    this.#store = store;
    this.#heights = heights;
    this.#firstValidators = firstValidators;
  }

  latestHeightBlocks(): bigint {
    return this.#heights.latestBlocks();
  }

  baseHeightBlocks(): bigint {
    return this.latestHeightBlocks() === 0n ? 0n : this.#heights.initialBlocks;
  }

  block(heightBlocks: bigint): StoredBlock | undefined {
    const kept = this.#cache.get(heightBlocks);
    if (kept !== undefined) return kept;
    const outline = this.#at(TABLES.blocks, heightBlocks);
    const mark = this.#mark(heightBlocks);
    if (outline === undefined || mark === undefined) return this.#missing(heightBlocks, "a block");
    const stored = { block: readBlock(outline, this.#txs(heightBlocks, mark.numTxs)), ...idOf(mark) };
    this.remember(stored);
    return stored;
  }

  /** Keeps a block that was just written at hand. */
  remember(stored: StoredBlock): void {
    this.#cache.set(stored.block.header.height, stored, stored.sizeBytes);
  }

  blockByHash(hash: Bytes): StoredBlock | undefined {
    const height = hash.length === 32 ? this.#store.record(TABLES.hashes, hash) : undefined;
    return height === undefined ? undefined : this.block(bytesToHeight(height));
  }

  results(heightBlocks: bigint): BlockResults | undefined {
    const outline = this.#at(TABLES.results, heightBlocks);
    const mark = this.#mark(heightBlocks);
    if (outline === undefined || mark === undefined) return this.#missing(heightBlocks, "a block's results");
    const pairs = pairsOfBlock(this.#store, heightBlocks, mark.numTxs);
    return {
      ...decodeOutline(heightBlocks, outline),
      txResults: pairs.map(({ result }) => decodeTxResult(result)),
    };
  }

  commit(heightBlocks: bigint): { readonly commit: Commit; readonly canonical: boolean } | undefined {
    if (heightBlocks < 1n) return undefined;
    const newest = this.latestHeightBlocks();
    if (heightBlocks < newest) {
      const next = this.block(heightBlocks + 1n);
      const commit = next?.block.lastCommit;
      return commit === undefined || commit.height !== heightBlocks ? undefined : { commit, canonical: true };
    }
    const bytes = heightBlocks === newest ? this.#store.record(TABLES.commit, COMMIT_KEY) : undefined;
    if (bytes === undefined) return undefined;
    const decoded = decodeCommit(bytes);
    if (!decoded.ok) throw damagedRecord("the newest commit");
    return { commit: decoded.message, canonical: false };
  }

  validators(heightBlocks: bigint): ValidatorSet | undefined {
    const latest = this.latestHeightBlocks();
    const known = latest === 0n ? this.#heights.initialBlocks : latest + 1n;
    return heightBlocks > known ? undefined : this.validatorsAhead(heightBlocks);
  }

  /** As {@link validators}, also for the height after the next. */
  validatorsAhead(heightBlocks: bigint): ValidatorSet | undefined {
    const bytes = this.#at(TABLES.validators, heightBlocks);
    return bytes === undefined ? this.#firstValidators(heightBlocks) : decodeValidatorSet(bytes);
  }

  tx(hash: Bytes): StoredTx | undefined {
    const value = hash.length === 32 ? this.#store.record(TABLES.places, hash) : undefined;
    if (value === undefined) return undefined;
    const place = readPlace(value);
    const pair = pairAt(this.#store, place);
    if (pair === undefined) throw damagedRecord("a transaction");
    const { bytes, result } = pair;
    return { hash: Uint8Array.from(hash), ...place, bytes: Uint8Array.from(bytes), result: decodeTxResult(result) };
  }

  async searchTxs(query: string, page: SearchPage): Promise<SearchResult<StoredTx>> {
    await this.#indexed();
    return searchTxs(this.#store, this, query, page, { queue: this.#queue });
  }

  async searchBlocks(query: string, page: SearchPage): Promise<SearchResult<StoredBlock>> {
    await this.#indexed();
    return searchBlocks(this.#store, this, query, page, { queue: this.#queue });
  }

  // Every block between the first and the newest is kept. The newest may be another engine's: the store is checked for that when it is opened.
  #missing(heightBlocks: bigint, what: string): undefined {
    if (heightBlocks >= this.#heights.initialBlocks && heightBlocks < this.latestHeightBlocks())
      throw damagedRecord(what);
    return undefined;
  }

  #at(table: string, heightBlocks: bigint): Bytes | undefined {
    if (heightBlocks < 1n || heightBlocks > MAX_HEIGHT) return undefined;
    return this.#store.record(table, heightToBytes(heightBlocks));
  }

  #mark(heightBlocks: bigint): BlockMark | undefined {
    const bytes = this.#at(TABLES.ids, heightBlocks);
    return bytes === undefined ? undefined : readMark(bytes);
  }

  #txs(heightBlocks: bigint, count: number): Bytes[] {
    return pairsOfBlock(this.#store, heightBlocks, count).map(({ bytes }) => Uint8Array.from(bytes));
  }
}

const idOf = ({ id, sizeBytes }: BlockMark): Omit<StoredBlock, "block"> => ({ id, sizeBytes });

function readBlock(outline: Bytes, txs: readonly Bytes[]): Block {
  const empty = decodeMessage(cometTypes.BlockSchema, outline);
  if (!empty.ok) throw damagedRecord("a block");
  const whole = { ...empty.message, data: createMessage(cometTypes.DataSchema, { txs: [...txs] }) };
  const block = decodeBlock(encodeMessage(cometTypes.BlockSchema, whole));
  if (!block.ok) throw damagedRecord("a block");
  return block.message;
}
