import type { ChainEvent } from "@turnpike/chain";
import type { BlockResults, StoredBlock, StoredTx } from "../types.ts";

/** Values of events by `type.attribute`, in the order in which they were emitted. */
export type EventMap = ReadonlyMap<string, readonly string[]>;

/** Kinds of events that a subscription can ask for as `tm.event`. */
export const EVENT_KEY = "tm.event";
/** A transaction's hash, in upper-case hex digits. */
export const TX_HASH_KEY = "tx.hash";
/** A transaction's height. */
export const TX_HEIGHT_KEY = "tx.height";
/** A block's height. */
export const BLOCK_HEIGHT_KEY = "block.height";

/** Values by `type.attribute`; what has no type or no key is left out. */
function eventMapOf(events: readonly ChainEvent[]): Map<string, string[]> {
  const map = new Map<string, string[]>();
  for (const { type, attributes } of events) {
    if (type === "") continue;
    for (const { key, value } of attributes) if (key !== "") add(map, `${type}.${key}`, value);
  }
  return map;
}

function add(map: Map<string, string[]>, key: string, value: string): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}

/** What a subscription to transactions sees of one: its events, `tm.event`, `tx.hash` and `tx.height`. */
export function eventMapOfTx({ hash, heightBlocks, result }: StoredTx): EventMap {
  const map = eventMapOf(result.events);
  add(map, EVENT_KEY, "Tx");
  add(map, TX_HASH_KEY, Buffer.from(hash).toString("hex").toUpperCase());
  add(map, TX_HEIGHT_KEY, heightBlocks.toString());
  return map;
}

/**
 * What a subscription to blocks sees of one: the events of its beginning and end (none of them with `NewBlockHeader`), and
 * `tm.event`. The height is no part of it, as with CometBFT.
 * @param eventType what `tm.event` says
 */
export function eventMapOfBlock(
  _block: StoredBlock,
  results: Pick<BlockResults, "events">,
  eventType: "NewBlock" | "NewBlockEvents" | "NewBlockHeader" = "NewBlock",
): EventMap {
  const map = eventMapOf(eventType === "NewBlockHeader" ? [] : results.events);
  add(map, EVENT_KEY, eventType);
  return map;
}
