import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import type { ClientKey } from "@turnpike/base";
import type { Application, QueryAnswer } from "@turnpike/chain";
import type { ChainSource, RunStep } from "@turnpike/chain-node";
import type { Bytes } from "@turnpike/chain-store";
import { encodeMessage } from "@turnpike/proto";

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
  /** Runs a piece of the work when its turn comes. */
  readonly run: RunStep;
}

/** A method that the state machine does not answer. Made by {@link apiMethod}. */
export interface ApiMethod {
  readonly input: DescMessage;
  readonly output: DescMessage;
  /** Its answer, as a message or in the bytes of one. */
  answer(request: Message, call: CallContext): Promise<QueryAnswer<Message | Bytes>>;
}

/** A method of one pair of schemas. */
export function apiMethod<Input extends DescMessage, Output extends DescMessage>(
  input: Input,
  output: Output,
  answer: (
    request: MessageShape<Input>,
    call: CallContext,
  ) => QueryAnswer<MessageShape<Output> | Bytes> | Promise<QueryAnswer<MessageShape<Output> | Bytes>>,
): ApiMethod {
  // The API gives a method only requests of its own schema.
  return { input, output, answer: async (request, call) => answer(request as MessageShape<Input>, call) };
}

/** Calls a method. Returns the bytes of its answer. */
export async function callApiMethod(
  method: ApiMethod,
  request: Message,
  call: CallContext,
): Promise<QueryAnswer<Bytes>> {
  const answer = await method.answer(request, call);
  if (!answer.ok) return answer;
  const { value } = answer;
  return { ok: true, value: value instanceof Uint8Array ? value : encodeMessage(method.output, value) };
}

/** An answer that is a message. */
export function answered<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}
