import { BLOCK_PART_FAILED } from "./block-parts.ts";
import type { ChainEvent, Context } from "./context.ts";
import { MAX_TEXT_BYTES, type TxResult } from "./outcome.ts";

/** Tags, lengths and the index flag of an attribute in CometBFT's encoding, and the event's own. */
const ATTRIBUTE_OVERHEAD_BYTES = 12;
const EVENT_OVERHEAD_BYTES = 8;
/** The attribute that each event of the begin and the end of a block gets. */
const MODE_BYTES = ATTRIBUTE_OVERHEAD_BYTES + "mode".length + "BeginBlock".length;
/** Tags and lengths of a result, its code and its gas. */
const RESULT_OVERHEAD_BYTES = 64;

/** Maximum bytes of the events of unbondings, or transfers, of one kind in a block. */
export const MAX_UNBONDING_BYTES = 4 * 1024 * 1024;

/** Upper bound of an event's bytes in the results of a block. Types and keys are ASCII. */
export function eventBytes({ type, attributes }: ChainEvent): number {
  let bytes = EVENT_OVERHEAD_BYTES + type.length;
  for (const { key, value } of attributes) {
    bytes += ATTRIBUTE_OVERHEAD_BYTES + key.length + Buffer.byteLength(value);
  }
  return bytes;
}

/** Upper bound of the bytes of events in the results of a block. */
export function sumOfEventBytes(events: readonly ChainEvent[]): number {
  let sum = 0;
  for (const event of events) sum += eventBytes(event);
  return sum;
}

/**
 * Upper bound of the bytes of a transaction's result in those of a block. A log counts as the longest: a part of its text may be the
 * runtime's, of which validators have several versions, and the sum decides which transactions run.
 */
export function resultBytes({ log, codespace, data, events }: TxResult): number {
  const logBytes = log === "" ? 0 : MAX_TEXT_BYTES;
  return RESULT_OVERHEAD_BYTES + logBytes + codespace.length + data.length + sumOfEventBytes(events);
}

/** Bytes that an event of a block's step counts: one that names a fault as the longest, for the same reason. */
function stepEventBytes(event: ChainEvent): number {
  return MODE_BYTES + (event.type === BLOCK_PART_FAILED ? 2 * MAX_TEXT_BYTES : eventBytes(event));
}

/**
 * The items of a step of a block, until those before have added this many bytes of events: at least one of them. The step is called
 * again in a later block with the others.
 */
export function* withinEventBytes<T>(
  { events }: Pick<Context, "events">,
  items: Iterable<T>,
  maxBytes: number,
): Generator<T> {
  let next = events.length;
  let bytes = 0;
  for (const item of items) {
    if (bytes >= maxBytes) return;
    yield item;
    for (; next < events.length; next++) {
      const event = events[next];
      if (event !== undefined) bytes += stepEventBytes(event);
    }
  }
}
