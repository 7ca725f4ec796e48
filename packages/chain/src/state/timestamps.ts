import { createMessage, type Timestamp, TimestampSchema } from "@turnpike/proto";

/** Nanoseconds of a second. */
export const NANOS_PER_SECOND = 1_000_000_000n;

/** Nanoseconds since 1970 of a timestamp, or nanoseconds of a duration; 0 for none. */
export function timestampNanos(at: Pick<Timestamp, "seconds" | "nanos"> | undefined): bigint {
  return at === undefined ? 0n : at.seconds * NANOS_PER_SECOND + BigInt(at.nanos);
}

/** A time from 1970 on, as a message. */
export function timestampOf(nanos: bigint): Timestamp {
  return createMessage(TimestampSchema, {
    seconds: nanos / NANOS_PER_SECOND,
    nanos: Number(nanos % NANOS_PER_SECOND),
  });
}
