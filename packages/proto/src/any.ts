import { create, type DescMessage, type Message, type MessageShape, type Registry } from "@bufbuild/protobuf";
import { type Any, AnySchema } from "@bufbuild/protobuf/wkt";
import { type Decoded, decodeMessage, encodeMessage } from "./binary.ts";
import { registry, schemaOfTypeUrl } from "./registry.ts";

/** A message together with its schema. */
export interface TypedMessage {
  readonly schema: DescMessage;
  readonly message: Message;
}

/** Type URL as the chain writes it: a slash and the full name, no host. */
export function typeUrlOf(schema: DescMessage): string {
  return `/${schema.typeName}`;
}

/** Wraps a message, with the chain's type URL. */
export function packAny<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): Any {
  return create(AnySchema, { typeUrl: typeUrlOf(schema), value: encodeMessage(schema, message) });
}

/** Unwraps a message. A fault for a type that is not known, and for bytes that are not of it. */
export function unpackAny(any: Any, types: Registry = registry): Decoded<TypedMessage> {
  const schema = schemaOfTypeUrl(any.typeUrl, types);
  if (schema === undefined) return { ok: false, fault: `unable to resolve type URL ${any.typeUrl}` };
  const decoded = decodeMessage(schema, any.value);
  return decoded.ok ? { ok: true, message: { schema, message: decoded.message } } : decoded;
}
