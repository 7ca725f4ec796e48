import type { ChainEvent, Context } from "./context.ts";

/** Tags, lengths and the index flag of an attribute in CometBFT's encoding, and the event's own. */
const ATTRIBUTE_OVERHEAD_BYTES = 12;
const EVENT_OVERHEAD_BYTES = 8;

/** Upper bound of an event's bytes in the results of a block. */
export function eventBytes({ type, attributes }: ChainEvent): number {
  let bytes = EVENT_OVERHEAD_BYTES + Buffer.byteLength(type);
  for (const { key, value } of attributes) {
    bytes += ATTRIBUTE_OVERHEAD_BYTES + Buffer.byteLength(key) + Buffer.byteLength(value);
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
      if (event !== undefined) bytes += eventBytes(event);
    }
  }
}
