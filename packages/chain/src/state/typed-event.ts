import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { createMessage, jsonMemberTexts } from "@turnpike/proto";
import { type ChainEvent, type Context, chainEvent } from "./context.ts";

/** An event that is a proto message: its full name, and its members by name with JSON values. */
export function typedEvent<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): ChainEvent {
  const members = jsonMemberTexts(schema, createMessage(schema, init));
  return chainEvent(schema.typeName, Object.fromEntries(members.map(({ name, json }) => [name, json])));
}

/** Adds a typed event to those of the context. */
export function emit<Desc extends DescMessage>(ctx: Context, schema: Desc, init: MessageInitShape<Desc>): void {
  ctx.events.push(typedEvent(schema, init));
}
