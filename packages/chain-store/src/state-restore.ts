import type { FaultPoints } from "@turnpike/base";
import { clearLeftovers, type LeftoversHost } from "./leftovers.ts";
import { checkRecords, checkSizes, recordKey, refusedBlock } from "./plan.ts";
import { type StorePosition, writePosition, writeRestored } from "./position.ts";
import { type LeafChange, leafHash, pathOf, rootHash, type TrieChild, updateTrie } from "./trie.ts";
import type { BlockRecord, Bytes, StateRestore } from "./types.ts";

/** The store that a state is restored into. */
export interface RestoreHost extends LeftoversHost {
  readonly faults: FaultPoints;
  /** Writers go one after another. */
  inTurn<T>(action: () => Promise<T>): Promise<T>;
  /** @throws AppError CHAIN_STORE when the store is closed. */
  checkOpen(): void;
  /** The store stands there from now on; undefined: nowhere, and it is empty again. */
  ended(position: StorePosition | undefined): void;
}

/** The {@link StateRestore} of the store on LMDB. Before it is finished the store stands nowhere. */
export class StoreRestore implements StateRestore {
  readonly heightBlocks: bigint;
  readonly #host: RestoreHost;
  #root: TrieChild | undefined;
  #last: Bytes | undefined;
  #isOver = false;

  constructor(opts: { readonly heightBlocks: bigint }, host: RestoreHost) {
    this.heightBlocks = opts.heightBlocks;
    this.#host = host;
  }

  /** True when nothing can be added any more; what could not be cleared may be there. */
  get isOver(): boolean {
    return this.#isOver;
  }

  add(entries: readonly (readonly [key: Bytes, value: Bytes])[]): Promise<void> {
    return this.#host.inTurn(async () => {
      this.#check();
      const leaves: LeafChange[] = [];
      let last = this.#last;
      for (const [key, value] of entries) {
        checkSizes(key, value);
        if (last !== undefined && Buffer.compare(last, key) >= 0) throw refusedBlock("keys are not in their order");
        last = key;
        const path = pathOf(key);
        leaves.push({ path, hash: leafHash(path, value) });
      }
      const { latest, nodes } = this.#host.tables;
      const { root, writes } = updateTrie(this.#root, leaves, (key) => nodes.get(key));
      this.#host.write(() => {
        for (const [key, value] of entries) latest.put(key, value);
        for (const [key, bytes] of writes) {
          if (bytes === undefined) nodes.remove(key);
          else nodes.put(key, bytes);
        }
      });
      this.#root = root;
      this.#last = last === undefined ? undefined : Buffer.from(last);
      await this.#host.faults.reach("chain-store.restored-some");
    });
  }

  finish(expectedAppHash: Bytes, records: readonly BlockRecord[]): Promise<boolean> {
    return this.#host.inTurn(async () => {
      this.#check();
      checkRecords({ records });
      if (!rootHash(this.#root).equals(expectedAppHash)) return false;
      const { heightBlocks } = this;
      const { tables } = this.#host;
      const position: StorePosition = { newest: heightBlocks, earliest: heightBlocks, root: this.#root };
      this.#host.write(() => {
        for (const { table, key, value } of records) tables.records.put(recordKey(table, key), value);
        writePosition(tables, position);
        writeRestored(tables, heightBlocks);
      });
      this.#isOver = true;
      this.#host.ended(position);
      return true;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host.inTurn(async () => {
      if (this.#isOver) return;
      this.#isOver = true;
      this.#root = undefined;
      // What a closed store still has is found when it is opened.
      if (this.#host.isClosing()) return;
      await clearLeftovers(this.#host);
      this.#host.ended(undefined);
    });
  }

  #check(): void {
    this.#host.checkOpen();
    if (this.#isOver) throw refusedBlock("its restore is over");
  }
}
