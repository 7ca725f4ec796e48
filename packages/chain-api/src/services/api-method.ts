import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import type { ClientKey } from "@turnpike/base";
import type { Application, QueryAnswer } from "@turnpike/chain";
import type { ChainSource } from "@turnpike/chain-node";

/** What the methods beside the state machine read: the application, and blocks and transactions. */
export interface ApiModules {
  readonly application: Application;
  readonly source: ChainSource;
}

/** What a method knows of its call. */
export interface CallContext {
  /** Height that was asked for, or the newest one. */
  readonly heightBlocks: bigint;
  /** Key under which the client's connections are counted. */
  readonly client: ClientKey;
}

/** A method that the state machine does not answer. Made by {@link apiMethod}. */
export interface ApiMethod {
  readonly input: DescMessage;
  readonly output: DescMessage;
  answer(request: Message, call: CallContext): Promise<QueryAnswer<Message>>;
}

/** A method of one pair of schemas. */
export function apiMethod<Input extends DescMessage, Output extends DescMessage>(
  input: Input,
  output: Output,
  answer: (
    request: MessageShape<Input>,
    call: CallContext,
  ) => QueryAnswer<MessageShape<Output>> | Promise<QueryAnswer<MessageShape<Output>>>,
): ApiMethod {
  // The API gives a method only requests of its own schema.
  return { input, output, answer: async (request, call) => answer(request as MessageShape<Input>, call) };
}

/** An answer that is a message. */
export function answered<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}
