import { type DescMessage, isMessage, type Message } from "@bufbuild/protobuf";
import { bytesEqual } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { type Any, decodeMessage, encodeMessage, findUnknownField, schemaOfTypeUrl, tx as txs } from "@turnpike/proto";
import { parseAddress } from "../state/addresses.ts";
import { bytesToText } from "../state/bytes.ts";
import type { MessageHandler } from "../state/module.ts";
import { done, fail, type Outcome, SDK, wrapped } from "../state/outcome.ts";
import { rawFormFault } from "./raw-form.ts";
import { membersOf, valueFault } from "./strict-values.ts";

/** A message of a transaction, with the handler that runs it. */
export interface RoutedMessage {
  readonly typeUrl: string;
  readonly message: Message;
  readonly handler: MessageHandler;
  /** Its signers, as they stand in it. */
  readonly signers: readonly string[];
}

/** A transaction whose form is right. */
export interface DecodedTx {
  readonly bytes: Bytes;
  readonly raw: txs.TxRaw;
  readonly body: txs.TxBody;
  readonly authInfo: txs.AuthInfo;
  readonly fee: txs.Fee;
  readonly messages: readonly RoutedMessage[];
  /** Address bytes of all that must sign: of the messages in their order, then the fee payer; each once. */
  readonly signers: readonly Bytes[];
  readonly feePayer: Bytes;
}

// Bit 11 of a field number says that a reader that does not know the field may pass over it.
const isNonCritical = (field: number): boolean => ((field >> 10) & 1) === 1;

function unknownFault(schema: DescMessage, message: Message): string | undefined {
  const found = findUnknownField(schema, message);
  if (found === undefined) return undefined;
  return `errUnknownField "/${found.typeName}": {TagNum: ${found.number}}`;
}

function read<Desc extends DescMessage>(schema: Desc, bytes: Bytes): ReturnType<typeof decodeMessage<Desc>> {
  const decoded = decodeMessage(schema, bytes);
  if (!decoded.ok) return decoded;
  const fault = unknownFault(schema, decoded.message);
  return fault === undefined ? decoded : { ok: false, fault };
}

function readBody(bytes: Bytes): ReturnType<typeof decodeMessage<typeof txs.TxBodySchema>> {
  const decoded = decodeMessage(txs.TxBodySchema, bytes);
  if (!decoded.ok) return decoded;
  const { message } = decoded;
  const critical = message.$unknown?.find((field) => !isNonCritical(field.no));
  if (critical !== undefined) {
    return { ok: false, fault: `errUnknownField "/cosmos.tx.v1beta1.TxBody": {TagNum: ${critical.no}}` };
  }
  const known = { ...message };
  delete known.$unknown;
  const { timeoutTimestamp } = message;
  const fault =
    unknownFault(txs.TxBodySchema, known) ??
    (timeoutTimestamp === undefined ? undefined : valueFault(timeoutTimestamp));
  return fault === undefined ? decoded : { ok: false, fault };
}

function routed(any: Any, handlers: ReadonlyMap<string, MessageHandler>): Outcome<RoutedMessage> {
  const { typeUrl } = any;
  const schema = schemaOfTypeUrl(typeUrl);
  if (schema === undefined || typeUrl !== `/${schema.typeName}`) {
    return fail(SDK.txDecode, `unable to resolve type URL ${typeUrl}`);
  }
  const decoded = read(schema, any.value);
  if (!decoded.ok) return fail(SDK.txDecode, decoded.fault);
  const handler = handlers.get(typeUrl);
  if (handler === undefined) {
    return fail(SDK.unknownRequest, `no message handler found for *types.${schema.name}`);
  }
  const nested = nestedFault(schema, decoded.message, 0);
  if (nested !== undefined) return fail(SDK.txDecode, nested);
  return done({ typeUrl, message: decoded.message, handler, signers: handler.signers(decoded.message) });
}

const DEEPEST_NESTING = 16;

// What stands inside `Any` values is read as strictly as the rest.
function nestedFault(schema: DescMessage, message: Message, depth: number): string | undefined {
  if (depth > DEEPEST_NESTING) return "messages are nested too deeply";
  const wrong = valueFault(message);
  if (wrong !== undefined) return wrong;
  if (schema.typeName === "google.protobuf.Any") {
    const { typeUrl, value } = message as Any;
    if (typeUrl === "") return undefined;
    const inner = schemaOfTypeUrl(typeUrl);
    if (inner === undefined) return `unable to resolve type URL ${typeUrl}`;
    const decoded = read(inner, value);
    return decoded.ok ? nestedFault(inner, decoded.message, depth + 1) : decoded.fault;
  }
  for (const item of membersOf(message)) {
    if (!isMessage(item)) continue;
    const inner = schemaOfTypeUrl(`/${item.$typeName}`);
    const fault = inner === undefined ? undefined : nestedFault(inner, item, depth + 1);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function signersOf(messages: readonly RoutedMessage[], payer: string): Outcome<Bytes[]> {
  const seen = new Map<string, Bytes>();
  for (const text of [...messages.flatMap((message) => message.signers), ...(payer === "" ? [] : [payer])]) {
    const address = parseAddress(text);
    if (!address.ok) return fail(SDK.txDecode, address.fault.text);
    seen.set(bytesToText(address.value), seen.get(bytesToText(address.value)) ?? address.value);
  }
  return done([...seen.values()]);
}

/**
 * Reads a transaction: canonical bytes (ADR-027), no field that is not known (those of the body that say of themselves
 * that they may be passed over aside), every message of a type that is known and handled.
 */
export function decodeTx(bytes: Bytes, handlers: ReadonlyMap<string, MessageHandler>): Outcome<DecodedTx> {
  const form = rawFormFault(bytes);
  // The SDK names the error in its decoder, and again around it.
  if (form !== undefined) return fail(SDK.txDecode, wrapped(SDK.txDecode, form));
  const raw = read(txs.TxRawSchema, bytes);
  if (!raw.ok) return fail(SDK.txDecode, raw.fault);
  if (!bytesEqual(encodeMessage(txs.TxRawSchema, raw.message), bytes)) {
    return fail(SDK.txDecode, "the bytes are not canonical");
  }
  const body = readBody(raw.message.bodyBytes);
  if (!body.ok) return fail(SDK.txDecode, body.fault);
  const authInfo = read(txs.AuthInfoSchema, raw.message.authInfoBytes);
  if (!authInfo.ok) return fail(SDK.txDecode, authInfo.fault);
  const { fee } = authInfo.message;
  if (body.message.messages.length === 0) return fail(SDK.invalidRequest, "must contain at least one message");
  if (fee === undefined) return fail(SDK.txDecode, "the fee is missing");
  const messages: RoutedMessage[] = [];
  for (const any of body.message.messages) {
    const message = routed(any, handlers);
    if (!message.ok) return message;
    messages.push(message.value);
  }
  const signers = signersOf(messages, fee.payer);
  if (!signers.ok) return signers;
  const payer = fee.payer === "" ? undefined : parseAddress(fee.payer);
  const feePayer = payer?.ok === true ? payer.value : signers.value[0];
  if (feePayer === undefined) return fail(SDK.txDecode, "the transaction has no signer");
  const { message: rawTx } = raw;
  return done({
    bytes,
    raw: rawTx,
    body: body.message,
    authInfo: authInfo.message,
    fee,
    messages,
    signers: signers.value,
    feePayer,
  });
}
