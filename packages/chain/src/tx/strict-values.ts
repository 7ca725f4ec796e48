import { isMessage, type Message } from "@bufbuild/protobuf";
import { isRecord } from "@turnpike/base";
import { base, DurationSchema, type Timestamp, TimestampSchema } from "@turnpike/proto";
import { goQuoted } from "../state/go-text.ts";
import { hasAmount } from "../state/stakes.ts";

const MOST_SHOWN = 100;
// From the year 1 to the year 9999, and at most 10,000 years: what these messages say of themselves.
const FIRST_SECOND = -62_135_596_800n;
const LAST_SECOND = 253_402_300_799n;
const LONGEST_SECONDS = 315_576_000_000n;

function isTime({ seconds, nanos }: Pick<Timestamp, "seconds" | "nanos">): boolean {
  return seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos < 1_000_000_000;
}

/**
 * Why a message holds a value that the real chain's decoder does not take, although it is well formed: an amount that is
 * no number of 256 bits, or a time that is none. None at all is for the messages to refuse.
 */
export function valueFault(message: Message): string | undefined {
  if (isMessage(message, base.CoinSchema)) {
    if (message.amount === "" || hasAmount(message)) return undefined;
    return `math/big: cannot unmarshal ${goQuoted(message.amount.slice(0, MOST_SHOWN))} into a *big.Int`;
  }
  if (isMessage(message, TimestampSchema)) {
    return isTime(message) ? undefined : `timestamp: seconds:${message.seconds} nanos:${message.nanos}: out of range`;
  }
  if (!isMessage(message, DurationSchema)) return undefined;
  const { seconds, nanos } = message;
  const size = seconds < 0n ? -seconds : seconds;
  const isOne = size <= LONGEST_SECONDS && Math.abs(nanos) < 1_000_000_000;
  return isOne ? undefined : `duration: seconds:${seconds} nanos:${nanos}: out of range`;
}

/** Values of a message's fields: those of lists one by one, and what a oneof holds. */
export function* membersOf(message: Message): Generator<unknown> {
  for (const value of Object.values(message)) {
    if (Array.isArray(value)) yield* value;
    else if (isRecord(value) && "case" in value) yield value["value"];
    else yield value;
  }
}
