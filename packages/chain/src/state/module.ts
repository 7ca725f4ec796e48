import type { DescMessage, Message, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage } from "@turnpike/proto";
import type { Context } from "./context.ts";
import type { GenesisType } from "./genesis-types.ts";
import type { Outcome, TxFault, TxResult } from "./outcome.ts";
import { type Parsed, validated } from "./parsed.ts";
import { ALL_COINS, type Spending } from "./spending.ts";

/** A change of the validator set; power 0 removes. */
export interface ValidatorUpdate {
  /** Ed25519 public key, 32 bytes. */
  readonly publicKey: Uint8Array;
  readonly power: bigint;
}

/** How a message of one type is run. Made by {@link messageHandler}. */
export interface MessageHandler {
  readonly schema: DescMessage;
  readonly response: DescMessage;
  /** Addresses whose signatures the message needs, as they stand in it. */
  signers(message: Message): readonly string[];
  /** Coins that running it may take, and from whom. */
  spending(message: Message): readonly Spending[];
  /** Checks that need no state, before the fee is taken. */
  validate(message: Message): TxFault | undefined;
  /** Takes a message that `validate` found nothing wrong with. */
  run(ctx: Context, message: Message): Outcome<Message>;
}

/** How a query is answered. Made by {@link queryHandler}. */
export interface QueryHandler {
  readonly input: DescMessage;
  readonly output: DescMessage;
  answer(ctx: Context, request: Message): QueryAnswer<Message>;
}

/** Answer of a query: a message, or a gRPC status. */
export type QueryAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: number; readonly text: string };

/** What a module keeps in `app_state`. */
export interface ModuleGenesis {
  /** The real chain's message; none where it has something else, which is one of the lists then. */
  readonly message?: GenesisMessage;
  /** Fields beside those of the message. */
  readonly lists: readonly GenesisList[];
}

/** The real chain's message of a module's genesis. */
export interface GenesisMessage {
  readonly schema: DescMessage;
  /** Fills the state; may name the chain's first validators. */
  init(ctx: Context, state: Message): readonly ValidatorUpdate[] | undefined;
  export(ctx: Context): Message;
}

/** A list of a module's genesis that the real chain's message does not have. Made by {@link genesisList}. */
export interface GenesisList {
  readonly field: string;
  readonly entry: GenesisType<unknown>;
  /**
   * Fills the state after the message and the lists before it; may run transactions of the genesis, and name the chain's first
   * validators. Without the field it does not run. @throws AppError CONFIG_INVALID
   */
  init(
    ctx: Context,
    entries: readonly unknown[],
    runTx: (bytes: Bytes) => TxResult,
  ): readonly ValidatorUpdate[] | undefined;
  /** An export leaves out an empty list. */
  export(ctx: Context): Iterable<unknown>;
}

/** One part of the state machine: a folder under `modules/`. Its name is also what its keys in the state begin with. */
export interface Module {
  readonly name: string;
  /** By type URL. */
  readonly messages?: Readonly<Record<string, MessageHandler>>;
  /** By gRPC path. */
  readonly queries?: Readonly<Record<string, QueryHandler>>;
  readonly genesis?: ModuleGenesis;
  beginBlock?(ctx: Context): void;
  endBlock?(ctx: Context): readonly ValidatorUpdate[] | undefined;
}

/** A handler of messages of one schema. */
export function messageHandler<Desc extends DescMessage, Answer extends DescMessage>(
  schema: Desc,
  response: Answer,
  parts: {
    signers(message: MessageShape<Desc>): readonly string[];
    /** All coins of the signers by default. */
    spending?(message: MessageShape<Desc>): readonly Spending[];
    validate?(message: MessageShape<Desc>): TxFault | undefined;
    run(ctx: Context, message: Parsed<MessageShape<Desc>>): Outcome<MessageShape<Answer>>;
  },
): MessageHandler {
  // The runner gives a handler only messages of its own schema.
  const typed = (message: Message): MessageShape<Desc> => message as MessageShape<Desc>;
  return {
    schema,
    response,
    signers: (message) => parts.signers(typed(message)),
    spending: (message) =>
      parts.spending?.(typed(message)) ??
      parts.signers(typed(message)).map((address) => ({ address, upokt: ALL_COINS })),
    validate: (message) => parts.validate?.(typed(message)),
    run: (ctx, message) => parts.run(ctx, validated(typed(message))),
  };
}

/** A handler of queries of one pair of schemas. */
export function queryHandler<Input extends DescMessage, Output extends DescMessage>(
  input: Input,
  output: Output,
  answer: (ctx: Context, request: MessageShape<Input>) => QueryAnswer<MessageShape<Output>>,
): QueryHandler {
  return { input, output, answer: (ctx, request) => answer(ctx, request as MessageShape<Input>) };
}

/** The answer of a query: a message of its schema. */
export function answerOf<Desc extends DescMessage>(
  schema: Desc,
  init: MessageInitShape<Desc>,
): QueryAnswer<MessageShape<Desc>> {
  return { ok: true, value: createMessage(schema, init) };
}

/** A module's genesis of one schema. */
export function moduleGenesis<Desc extends DescMessage>(
  schema: Desc,
  parts: {
    init(ctx: Context, state: MessageShape<Desc>): readonly ValidatorUpdate[] | undefined;
    export(ctx: Context): MessageShape<Desc>;
    readonly lists?: readonly GenesisList[];
  },
): ModuleGenesis {
  const message: GenesisMessage = {
    schema,
    init: (ctx, state) => parts.init(ctx, state as MessageShape<Desc>),
    export: (ctx) => parts.export(ctx),
  };
  return { message, lists: parts.lists ?? [] };
}

/** A list of a genesis of one type of entries. */
export function genesisList<V>(
  field: string,
  entry: GenesisType<V>,
  parts: {
    init(
      ctx: Context,
      entries: readonly V[],
      runTx: (bytes: Bytes) => TxResult,
    ): readonly ValidatorUpdate[] | undefined;
    export(ctx: Context): Iterable<V>;
  },
): GenesisList {
  return {
    field,
    entry,
    // The state machine gives a list only entries that its own type read.
    init: (ctx, entries, runTx) => parts.init(ctx, entries as readonly V[], runTx),
    export: (ctx) => parts.export(ctx),
  };
}
