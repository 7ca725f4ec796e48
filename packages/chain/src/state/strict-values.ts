import { type DescMessage, isMessage, type Message } from "@bufbuild/protobuf";
import { isRecord } from "@turnpike/base";
import { ACCOUNT_PREFIX, VALIDATOR_PREFIX } from "@turnpike/crypto";
import { type Duration, DurationSchema, type Timestamp, TimestampSchema } from "@turnpike/proto";
import { parseAddress } from "./addresses.ts";
import { goQuoted } from "./go-text.ts";
import { decimalOf, integerOf } from "./numbers.ts";
import { type TextKind, textKindOf } from "./text-kinds.ts";

const MAX_SHOWN = 100;
// From the year 1 to the year 9999, and at most 10,000 years: what these messages say of themselves.
const FIRST_SECOND = -62_135_596_800n;
const LAST_SECOND = 253_402_300_799n;
const LONGEST_SECONDS = 315_576_000_000n;

type Fields = Record<string, unknown>;

/** A message's text in the one form in which it is kept, or why the real chain's decoder refuses it. */
export type StrictText = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly fault: string };

interface TextField {
  readonly localName: string;
  /** Name of the group that the field is one case of. */
  readonly oneof: string | undefined;
  readonly kind: TextKind;
}

interface MessagePlan {
  readonly time: "timestamp" | "duration" | undefined;
  readonly texts: readonly TextField[];
  readonly children: readonly string[];
}

const TIMES: Readonly<Record<string, MessagePlan["time"]>> = {
  [TimestampSchema.typeName]: "timestamp",
  [DurationSchema.typeName]: "duration",
};

const plans = new WeakMap<DescMessage, MessagePlan>();

function planOf(schema: DescMessage): MessagePlan {
  const existing = plans.get(schema);
  if (existing !== undefined) return existing;
  const texts: TextField[] = [];
  const children = new Set<string>();
  for (const field of schema.fields) {
    const kind = textKindOf(field, schema);
    if (kind !== undefined && kind !== "text") {
      texts.push({ localName: field.localName, oneof: field.oneof?.localName, kind });
    }
    if (field.message !== undefined) children.add(field.oneof?.localName ?? field.localName);
  }
  const plan = { time: TIMES[schema.typeName], texts, children: [...children] };
  plans.set(schema, plan);
  return plan;
}

function isTime({ seconds, nanos }: Pick<Timestamp, "seconds" | "nanos">): boolean {
  return seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos < 1_000_000_000;
}

/** Reads a text of a message or a genesis. An empty one is for its module to refuse. */
export function strictText(text: string, kind: TextKind): StrictText {
  if (text === "" || kind === "text") return { ok: true, text };
  if (kind === "account" || kind === "operator") {
    // An address in capitals is the same account; whether a text is an address at all is for the message to say.
    if (text === text.toLowerCase()) return { ok: true, text };
    const address = parseAddress(text, kind === "account" ? ACCOUNT_PREFIX : VALIDATOR_PREFIX);
    return { ok: true, text: address.ok ? text.toLowerCase() : text };
  }
  const value = kind === "integer" ? integerOf(text) : decimalOf(text);
  if (value !== undefined) return { ok: true, text: value.toString() };
  const type = kind === "integer" ? "*big.Int" : "math.LegacyDec";
  return { ok: false, fault: `math/big: cannot unmarshal ${goQuoted(text.slice(0, MAX_SHOWN))} into a ${type}` };
}

function textsFault(fieldsOfText: readonly TextField[], message: Message): string | undefined {
  for (const { localName, oneof, kind } of fieldsOfText) {
    let fields = message as unknown as Fields;
    let name = localName;
    if (oneof !== undefined) {
      const group = fields[oneof];
      if (!isRecord(group) || group["case"] !== localName) continue;
      fields = group;
      name = "value";
    }
    const value = fields[name];
    const texts = Array.isArray(value) ? (value as readonly unknown[]) : [value];
    for (const [i, text] of texts.entries()) {
      if (typeof text !== "string") continue;
      const strict = strictText(text, kind);
      if (!strict.ok) return strict.fault;
      if (strict.text === text) continue;
      if (Array.isArray(value)) value[i] = strict.text;
      else fields[name] = strict.text;
    }
  }
  return undefined;
}

/**
 * Why a message holds a value that the real chain's decoder does not take, although it is well formed: a number that is
 * none, or a time out of range. No value at all is for the messages to refuse. Numbers and addresses are replaced by the one
 * text that each value is kept as. Messages inside it are not looked at.
 */
export function valueFault(schema: DescMessage, message: Message): string | undefined {
  const { time, texts } = planOf(schema);
  if (time === undefined) return textsFault(texts, message);
  const { seconds, nanos } = message as Timestamp | Duration;
  if (time === "timestamp") {
    return isTime({ seconds, nanos }) ? undefined : `timestamp: seconds:${seconds} nanos:${nanos}: out of range`;
  }
  const text = `duration: seconds:${seconds} nanos:${nanos}`;
  // No text has this form: an export that holds it could not be written.
  if ((seconds > 0n && nanos < 0) || (seconds < 0n && nanos > 0)) {
    return `${text}: seconds and nanos have different signs`;
  }
  const size = seconds < 0n ? -seconds : seconds;
  const isDuration = size <= LONGEST_SECONDS && Math.abs(nanos) < 1_000_000_000;
  return isDuration ? undefined : `${text}: out of range`;
}

/** Messages of a message's fields: those of lists and maps one by one, and what a oneof holds. */
export function* messagesIn(schema: DescMessage, message: Message): Generator<Message> {
  const fields = message as unknown as Fields;
  for (const name of planOf(schema).children) {
    const value = fields[name];
    if (value === undefined || value === null) continue;
    if (isMessage(value)) yield value;
    else if (Array.isArray(value)) {
      for (const item of value as readonly unknown[]) if (isMessage(item)) yield item;
    } else if (typeof value === "object") {
      for (const item of Object.values(value)) if (isMessage(item)) yield item;
    }
  }
}
