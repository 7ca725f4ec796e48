import { type DescField, getOption, hasOption } from "@bufbuild/protobuf";
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { AppError } from "@turnpike/base";
import { scalar } from "./generated/cosmos_proto/cosmos_pb.ts";

const DECIMALS = 18;
const INTEGER = /^(-?)(\d+)$/;
const DECIMAL = /^(-?)(\d+)(?:\.(\d{1,18}))?$/;

const marks = new WeakMap<DescField, "Dec" | "Int" | undefined>();

/** What the option `cosmos_proto.scalar` says of a field: a decimal, an integer, or nothing. */
export function numberMark(field: DescField): "Dec" | "Int" | undefined {
  if (marks.has(field)) return marks.get(field);
  const option = hasOption(field, scalar) ? getOption(field, scalar) : "";
  const mark = option === "cosmos.Dec" ? "Dec" : option === "cosmos.Int" ? "Int" : undefined;
  marks.set(field, mark);
  return mark;
}

/** `1500000000000000000` of the wire as the SDK prints it: `1.500000000000000000`. Other texts stay as they are. */
export function decimalToJson(stored: string): string {
  const [, sign = "", digits] = INTEGER.exec(stored === "" ? "0" : stored) ?? [];
  if (digits === undefined) return stored;
  const padded = digits.padStart(DECIMALS + 1, "0");
  return `${sign}${padded.slice(0, -DECIMALS)}.${padded.slice(-DECIMALS)}`;
}

/** Undoes {@link decimalToJson}; undefined for a text that is no decimal of at most 18 places. */
export function decimalFromJson(text: string): string | undefined {
  const [, sign = "", whole, fraction = ""] = DECIMAL.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const digits = BigInt(whole + fraction.padEnd(DECIMALS, "0"));
  return digits === 0n ? "0" : `${sign}${digits}`;
}

/** Nanoseconds with 0, 3, 6 or 9 digits, and the point. */
function fraction(nanos: number): string {
  return `.${String(nanos).padStart(9, "0")}`.replace(/(?:000){1,2}$/, "").replace(/^\.(?:000)?$/, "");
}

/** Date and time in UTC, years 1 to 9999, without a zone; undefined for another time. */
export function isoSeconds(seconds: bigint): string | undefined {
  if (seconds < -62_135_596_800n || seconds > 253_402_300_799n) return undefined;
  return new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
}

/** RFC 3339 in UTC, years 1 to 9999. Throws `INTERNAL` for another time. */
export function timestampToJson({ seconds, nanos }: Timestamp): string {
  const text = isoSeconds(seconds);
  if (text === undefined || nanos < 0 || nanos > 999_999_999) {
    throw new AppError("INTERNAL", { message: `time out of range: ${seconds} s ${nanos} ns` });
  }
  return `${text}${fraction(nanos)}Z`;
}

/** Seconds with an `s`, such as `1.500s`. Throws `INTERNAL` when the signs disagree. */
export function durationToJson({ seconds, nanos }: Duration): string {
  const disagree = (seconds > 0n && nanos < 0) || (seconds < 0n && nanos > 0);
  if (disagree || Math.abs(nanos) > 999_999_999) {
    throw new AppError("INTERNAL", { message: `duration out of range: ${seconds} s ${nanos} ns` });
  }
  const sign = seconds < 0n || nanos < 0 ? "-" : "";
  return `${sign}${seconds < 0n ? -seconds : seconds}${fraction(Math.abs(nanos))}s`;
}
