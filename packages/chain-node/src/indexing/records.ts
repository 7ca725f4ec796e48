import type { ChainEvent } from "@turnpike/chain";
import type { BlockRecord } from "@turnpike/chain-store";
import type { BlockResults, StoredBlock } from "../types.ts";
import { BLOCK_HEIGHT_KEY, TX_HASH_KEY, TX_HEIGHT_KEY } from "./event-map.ts";
import {
  atHeight,
  BLOCK_INDEX,
  encodePostings,
  type IndexTables,
  keyPrefix,
  longText,
  type Posting,
  TX_INDEX,
  valuePrefix,
} from "./index-keys.ts";

// The height's key is the index's own: an event that claims it is left out.
const RESERVED = new Set([TX_HASH_KEY, TX_HEIGHT_KEY, BLOCK_HEIGHT_KEY]);

// Postings of one block by event key, and under that by value.
class Gathered {
  readonly #byKey = new Map<string, Posting[]>();
  readonly #byValue = new Map<string, Map<string, Posting[]>>();

  addKey(key: string, posting: Posting): void {
    append(this.#byKey, key, posting);
  }

  addEvents(tx: number, events: readonly ChainEvent[]): void {
    for (const [event, { type, attributes }] of events.entries()) {
      if (type === "") continue;
      for (const { key: name, value, index } of attributes) {
        const key = `${type}.${name}`;
        if (!index || name === "" || RESERVED.has(key)) continue;
        this.addKey(key, { tx, event });
        const values = this.#byValue.get(key) ?? new Map<string, Posting[]>();
        this.#byValue.set(key, values);
        append(values, value, { tx, event });
      }
    }
  }

  *records({ byKey, byValue }: IndexTables, heightBlocks: bigint): Generator<BlockRecord> {
    for (const [key, postings] of this.#byKey) {
      yield { table: byKey, key: atHeight(keyPrefix(key), heightBlocks), value: encodePostings(postings) };
    }
    for (const [key, values] of this.#byValue) {
      const prefix = keyPrefix(key);
      for (const [value, postings] of values) {
        const recordKey = atHeight(valuePrefix(prefix, value), heightBlocks);
        yield { table: byValue, key: recordKey, value: encodePostings(postings, longText(value)) };
      }
    }
  }
}

function append(map: Map<string, Posting[]>, key: string, posting: Posting): void {
  const postings = map.get(key);
  if (postings === undefined) {
    map.set(key, [posting]);
    return;
  }
  const last = postings.at(-1);
  if (last?.tx !== posting.tx || last.event !== posting.event) postings.push(posting);
}

/**
 * What the index keeps of a block, to be written with it: where the values of its indexed attributes, and their keys,
 * stand in its transactions and in the events of its beginning and end. One record a value, so that what every
 * transaction of a block says costs one.
 */
export function indexRecords(block: StoredBlock, results: BlockResults): BlockRecord[] {
  const { height } = block.block.header;
  const txs = new Gathered();
  for (const [tx, result] of results.txResults.entries()) {
    txs.addKey(TX_HEIGHT_KEY, { tx, event: 0 });
    txs.addEvents(tx, result.events);
  }
  const blocks = new Gathered();
  blocks.addKey(BLOCK_HEIGHT_KEY, { tx: 0, event: 0 });
  blocks.addEvents(0, results.events);
  return [...txs.records(TX_INDEX, height), ...blocks.records(BLOCK_INDEX, height)];
}
