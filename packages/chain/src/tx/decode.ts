import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import { type AddressBytes, bytesEqual } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import {
  type Any,
  type Decoded,
  decodeMessage,
  encodeMessage,
  schemaOfTypeUrl,
  TimestampSchema,
  tx as txs,
} from "@turnpike/proto";
import { parseAddress } from "../state/addresses.ts";
import { bytesToText } from "../state/bytes.ts";
import type { MessageHandler } from "../state/module.ts";
import { done, fail, type Outcome, SDK, wrapped } from "../state/outcome.ts";
import { boundsFault, decodeKnown, unknownFieldFault, valuesFault } from "../state/read-message.ts";
import { valueFault } from "../state/strict-values.ts";
import { rawFormFault } from "./raw-form.ts";

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
  readonly signers: readonly AddressBytes[];
  readonly feePayer: AddressBytes;
}

// Bit 11 of a field number says that a reader that does not know the field may pass over it.
const isNonCritical = (field: number): boolean => ((field >> 10) & 1) === 1;

function read<Desc extends DescMessage>(schema: Desc, bytes: Bytes): Decoded<MessageShape<Desc>> {
  const excess = boundsFault(schema, bytes);
  return excess === undefined ? decodeKnown(schema, bytes) : { ok: false, fault: excess };
}

function readBody(bytes: Bytes): Decoded<txs.TxBody> {
  const excess = boundsFault(txs.TxBodySchema, bytes);
  if (excess !== undefined) return { ok: false, fault: excess };
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
    unknownFieldFault(txs.TxBodySchema, known) ??
    (timeoutTimestamp === undefined ? undefined : valueFault(TimestampSchema, timeoutTimestamp));
  return fault === undefined ? decoded : { ok: false, fault };
}

function routed(any: Any, handlers: ReadonlyMap<string, MessageHandler>): Outcome<RoutedMessage> {
  const { typeUrl } = any;
  const schema = schemaOfTypeUrl(typeUrl);
  if (schema === undefined || typeUrl !== `/${schema.typeName}`) {
    return fail(SDK.txDecode, `unable to resolve type URL ${typeUrl}`);
  }
  const decoded = decodeKnown(schema, any.value);
  if (!decoded.ok) return fail(SDK.txDecode, decoded.fault);
  const handler = handlers.get(typeUrl);
  if (handler === undefined) {
    return fail(SDK.unknownRequest, `no message handler found for *types.${schema.name}`);
  }
  const nested = valuesFault(schema, decoded.message);
  if (nested !== undefined) return fail(SDK.txDecode, nested);
  return done({ typeUrl, message: decoded.message, handler, signers: handler.signers(decoded.message) });
}

function signersOf(messages: readonly RoutedMessage[], payer: string): Outcome<AddressBytes[]> {
  const seen = new Map<string, AddressBytes>();
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
