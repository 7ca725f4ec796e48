import type { DescField, DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import type { Bytes } from "@turnpike/chain-store";
import {
  type Any,
  type Decoded,
  decodeMessage,
  findUnknownField,
  fromApiJson,
  maxPartsOf,
  schemaOfTypeUrl,
  WireScanner,
} from "@turnpike/proto";
import { messagesIn, valueFault } from "./strict-values.ts";
import { MAX_TEXT_BYTES, textKindOf } from "./text-kinds.ts";

/** Messages and `Any` values that may stand inside one another. */
const MAX_NESTING = 16;
const TOO_DEEP = "messages are nested too deeply";
const MAX_ITEMS = 1_000;
/** Lists of which programs send longer ones: a supplier's claims in one transaction, a transfer to many. */
const MAX_MESSAGES = 10_000;
const LONG_LISTS: Readonly<Record<string, number>> = {
  "cosmos.tx.v1beta1.TxBody.messages": MAX_MESSAGES,
  "cosmos.authz.v1beta1.MsgExec.msgs": MAX_MESSAGES,
  "cosmos.bank.v1beta1.MsgMultiSend.outputs": MAX_MESSAGES,
  // Each member costs a square root before any fee is paid; the signature limit of the parameters is 7 unless changed.
  "cosmos.crypto.multisig.LegacyAminoPubKey.public_keys": 128,
};

/** Bounds of untrusted messages, compared with their bytes before anything is decoded. */
const scanner = new WireScanner({
  maxParts: maxPartsOf,
  maxDepth: 2 * MAX_NESTING,
  maxItems: ({ name }: DescField, { typeName }: DescMessage) => LONG_LISTS[`${typeName}.${name}`] ?? MAX_ITEMS,
  maxTextBytes: (field, schema) => MAX_TEXT_BYTES[textKindOf(field, schema) ?? "text"],
});

// The message inside an `Any` value, which is read once with what holds it. Nothing changes either. A property of the value,
// since a WeakMap of as many entries costs more than the rest of the reading: the collector looks at each again and again.
const INNER = Symbol("message inside");
type AnyThatWasRead = Any & { [INNER]?: Message };

/** The bound that the bytes of a message exceed, in words; undefined when they exceed none. In time linear in their length. */
export function boundsFault(schema: DescMessage, bytes: Bytes): string | undefined {
  return scanner.excess(schema, bytes);
}

/** The first field, in the SDK's words, that a message's schema does not have; undefined when all are known. */
export function unknownFieldFault(schema: DescMessage, message: Message): string | undefined {
  const field = findUnknownField(schema, message);
  return field === undefined ? undefined : `errUnknownField "/${field.typeName}": {TagNum: ${field.number}}`;
}

/** Decodes bytes whose bounds were compared, and refuses fields that are not known. */
export function decodeKnown<Desc extends DescMessage>(schema: Desc, bytes: Bytes): Decoded<MessageShape<Desc>> {
  const decoded = decodeMessage(schema, bytes);
  if (!decoded.ok) return decoded;
  const fault = unknownFieldFault(schema, decoded.message);
  return fault === undefined ? decoded : { ok: false, fault };
}

/**
 * Reads the values of a message and of all that it holds, also inside `Any` values, which are read as strictly: why one is
 * refused, or undefined when the message holds the values that it is kept with.
 */
export function valuesFault(schema: DescMessage, message: Message, depth = 0): string | undefined {
  if (depth > MAX_NESTING) return TOO_DEEP;
  const fault = valueFault(schema, message);
  if (fault !== undefined) return fault;
  if (schema.typeName === "google.protobuf.Any") return anyFault(message as Any, depth);
  for (const item of messagesIn(schema, message)) {
    const inner = schemaOfTypeUrl(`/${item.$typeName}`);
    const nested = inner === undefined ? undefined : valuesFault(inner, item, depth + 1);
    if (nested !== undefined) return nested;
  }
  return undefined;
}

function anyFault(any: Any, depth: number): string | undefined {
  if (any.typeUrl === "") return undefined;
  const schema = schemaOfTypeUrl(any.typeUrl);
  if (schema === undefined) return `unable to resolve type URL ${any.typeUrl}`;
  const decoded = decodeKnown(schema, any.value);
  if (!decoded.ok) return decoded.fault;
  (any as AnyThatWasRead)[INNER] = decoded.message;
  return valuesFault(schema, decoded.message, depth + 1);
}

/** The message inside an `Any`: the one that was read with what holds it, else read now. */
export function readAny<Desc extends DescMessage>(schema: Desc, any: Any): Decoded<MessageShape<Desc>> {
  const inner = (any as AnyThatWasRead)[INNER];
  if (inner?.$typeName === schema.typeName) return { ok: true, message: inner as MessageShape<Desc> };
  return readMessage(schema, any.value);
}

/** Reads untrusted bytes: their bounds, then their form, then every value. */
export function readMessage<Desc extends DescMessage>(schema: Desc, bytes: Bytes): Decoded<MessageShape<Desc>> {
  const excess = boundsFault(schema, bytes);
  if (excess !== undefined) return { ok: false, fault: excess };
  const decoded = decodeKnown(schema, bytes);
  if (!decoded.ok) return decoded;
  const fault = valuesFault(schema, decoded.message);
  return fault === undefined ? decoded : { ok: false, fault };
}

/** Reads a message of a genesis from its JSON: its form, then every value. */
export function readJson<Desc extends DescMessage>(schema: Desc, json: unknown): Decoded<MessageShape<Desc>> {
  const read = fromApiJson(schema, json);
  if (!read.ok) return read;
  const fault = valuesFault(schema, read.message);
  return fault === undefined ? read : { ok: false, fault };
}
