import assert from "node:assert/strict";

/** A transaction that was said to be in a block. */
export interface ToldTx {
  readonly heightBlocks: bigint;
  readonly code: number;
}

/** Code of a transaction that a block refused for its sequence: it used nothing up. */
const WRONG_SEQUENCE = 32;

/**
 * Adds a place to those that a transaction has. It has one, but for blocks that refused it for its sequence: the same bytes
 * may be sent again when their sequence has come.
 */
export function addPlace(places: ToldTx[], told: ToldTx, hash: string): void {
  const isFinal = ({ code }: ToldTx): boolean => code !== WRONG_SEQUENCE;
  const known = places.find((place) => place.heightBlocks === told.heightBlocks || (isFinal(place) && isFinal(told)));
  if (known === undefined) places.push(told);
  else assert.deepEqual(told, known, `transaction ${hash}`);
}

/**
 * All that anybody was ever told of a chain, over all its kills. What is told must agree with all before: no height has two
 * hashes, no transaction two places. A contradiction is thrown, and kept for those who ask later.
 */
export class Witness {
  /** Hash (upper-case hex) by height. */
  readonly blocks = new Map<bigint, string>();
  /** App hash (upper-case hex) after the block of a height. */
  readonly appHashes = new Map<bigint, string>();
  /** Places by hash (upper-case hex): see {@link addPlace}. */
  readonly txs = new Map<string, ToldTx[]>();
  /** Hex of an answer by the height that it was read at. */
  readonly answers = new Map<bigint, string>();
  /** Transactions that were told of since somebody looked. */
  readonly newTxs: [hash: string, told: ToldTx][] = [];
  newestBlocks = 0n;
  #fault: unknown;

  /** @param appHash of the header: what the block before left */
  block(heightBlocks: bigint, hash: string, appHash: string): void {
    this.#same(this.blocks, heightBlocks, hash, "hash of block");
    if (heightBlocks > 1n) this.appHash(heightBlocks - 1n, appHash);
    if (heightBlocks > this.newestBlocks) this.newestBlocks = heightBlocks;
  }

  /** What the state machine says of itself, before the next header does. */
  appHash(heightBlocks: bigint, appHash: string): void {
    this.#same(this.appHashes, heightBlocks, appHash, "app hash after block");
  }

  tx(hash: string, told: ToldTx): void {
    const places = this.txs.get(hash) ?? [];
    const before = places.length;
    this.#check(() => addPlace(places, told, hash));
    this.txs.set(hash, places);
    if (places.length > before) this.newTxs.push([hash, told]);
  }

  answer(heightBlocks: bigint, value: string): void {
    this.#same(this.answers, heightBlocks, value, "answer at block");
  }

  /** @throws whatever contradiction there was, or what {@link failed} was told */
  check(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }

  /** Keeps a fault of somebody who works beside. */
  failed(fault: unknown): void {
    this.#fault ??= fault;
  }

  #same(known: Map<bigint, string>, heightBlocks: bigint, value: string, what: string): void {
    const before = known.get(heightBlocks);
    if (before === undefined) known.set(heightBlocks, value);
    else this.#check(() => assert.equal(value, before, `${what} ${heightBlocks}`));
  }

  #check(compare: () => void): void {
    try {
      compare();
    } catch (error) {
      this.failed(error);
      throw error;
    }
  }
}
