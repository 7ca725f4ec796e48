import { trimEndOf } from "@turnpike/base";
import type { tx as txs } from "@turnpike/proto";

const NANOS = 1_000_000_000n;

/** Timeout of a transaction in nanoseconds since 1970; undefined when it has none. */
export function timeoutNanosOf({ timeoutTimestamp }: txs.TxBody): bigint | undefined {
  if (timeoutTimestamp === undefined || timeoutTimestamp.seconds === 0n) return undefined;
  return timeoutTimestamp.seconds * NANOS + BigInt(timeoutTimestamp.nanos);
}

/** A time as Go prints it: `2026-11-21 14:39:22.5 +0000 UTC`. */
export function goTimeText(nanos: bigint): string {
  const rest = ((nanos % NANOS) + NANOS) % NANOS;
  const date = new Date(Number((nanos - rest) / 1_000_000n));
  if (Number.isNaN(date.getTime())) return nanos.toString();
  const [day = "", time = ""] = date.toISOString().slice(0, -5).split("T");
  const fraction = rest === 0n ? "" : `.${trimEndOf(rest.toString().padStart(9, "0"), "0")}`;
  return `${day} ${time}${fraction} +0000 UTC`;
}
