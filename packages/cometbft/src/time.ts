import { trimEndOf } from "@turnpike/base";
import { createMessage, type Timestamp, TimestampSchema } from "@turnpike/proto";

const NS_PER_SECOND = 1_000_000_000n;
const TEXT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/;

function split(timeNs: bigint): readonly [seconds: bigint, nanos: bigint] {
  const nanos = ((timeNs % NS_PER_SECOND) + NS_PER_SECOND) % NS_PER_SECOND;
  return [(timeNs - nanos) / NS_PER_SECOND, nanos];
}

/** Protobuf's form of nanoseconds since 1970. */
export function nsToTimestamp(timeNs: bigint): Timestamp {
  const [seconds, nanos] = split(timeNs);
  return createMessage(TimestampSchema, { seconds, nanos: Number(nanos) });
}

/** Nanoseconds since 1970; undefined when the nanoseconds are no part of a second. */
export function timestampToNs(time: Timestamp): bigint | undefined {
  if (time.nanos < 0 || time.nanos > 999_999_999) return undefined;
  return time.seconds * NS_PER_SECOND + BigInt(time.nanos);
}

/** Go's RFC 3339 form with nanoseconds, without zeros at the end; years 0 to 9999. */
export function nsToRfc3339(timeNs: bigint): string {
  const [seconds, nanos] = split(timeNs);
  const text = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  const fraction = trimEndOf(nanos.toString().padStart(9, "0"), "0");
  return fraction === "" ? `${text}Z` : `${text}.${fraction}Z`;
}

/** Reads RFC 3339 in UTC; undefined when it is another text. */
export function rfc3339ToNs(text: string): bigint | undefined {
  const [, seconds, fraction = ""] = TEXT.exec(text) ?? [];
  const timeMs = seconds === undefined ? Number.NaN : Date.parse(`${seconds}Z`);
  return Number.isNaN(timeMs) ? undefined : BigInt(timeMs) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}
