import type { ClientKey } from "@turnpike/base";
import type { BlockRecord, Bytes } from "@turnpike/chain-store";
import type { BlockInfo } from "../state/context.ts";
import type { ValidatorUpdate } from "../state/module.ts";
import type { TxResult } from "../state/outcome.ts";
import type { TxFacts } from "../tx/tx-facts.ts";
import type { BlockOutcome } from "./state-machine.ts";

/** Answer of a query of the application, as `abci_query` gives it. */
export interface AppAnswer {
  /** 0, or the code of an error of codespace `sdk` (or of the gRPC status, as the SDK maps it). */
  readonly code: number;
  readonly codespace: string;
  /** The error's text. */
  readonly log: string;
  /** Key that was asked for in a store, with `/store/{name}/key`. */
  readonly key?: Bytes;
  readonly value: Bytes;
  /** Height of the state that was read. */
  readonly heightBlocks: bigint;
}

/** A gRPC answer: bytes, or a status with a text; and the height of the state that was read. */
export type GrpcAnswer =
  | { readonly ok: true; readonly value: Bytes; readonly heightBlocks: bigint }
  | { readonly ok: false; readonly status: number; readonly text: string; readonly heightBlocks: bigint };

/** What answers `abci_query`. */
export interface AbciQuerier {
  /**
   * @param heightBlocks undefined and 0: the newest
   * @param client key under which the client's connections are counted; queries without one are those of one client
   */
  abciQuery(path: string, data: Bytes, heightBlocks?: bigint, client?: ClientKey): AppAnswer | Promise<AppAnswer>;
}

/**
 * The application as all servers ask it, the same under both engines: the state machine on the store, at the newest
 * committed height or at an older one.
 */
export interface Application extends AbciQuerier {
  readonly chainId: string;
  /** Version of the program, such as `0.1.35`: relay miners refuse what is no version number of at least 0.1.25. */
  readonly version: string;
  /** 0 before the first block. */
  latestHeightBlocks(): bigint;
  /** App hash after the newest block. */
  latestAppHash(): Bytes;
  /**
   * Asks a query service by its gRPC path, such as `/pocket.shared.Query/Params`.
   * @param heightBlocks undefined and 0: the newest. One that is ahead, pruned or negative is refused with the SDK's text.
   */
  grpcQuery(path: string, request: Bytes, heightBlocks?: bigint, client?: ClientKey): GrpcAnswer | Promise<GrpcAnswer>;
  /** `abci_query` of the state: the modules' gRPC paths, `/store/{name}/key`, `/app/version`; the SDK's answer for others. */
  abciQuery(path: string, data: Bytes, heightBlocks?: bigint, client?: ClientKey): AppAnswer | Promise<AppAnswer>;
  /** Runs a transaction on the newest state and keeps nothing, within a node's bounds; undefined: too many wait. */
  simulate(tx: Bytes, client?: ClientKey): Promise<TxResult | undefined>;
  /**
   * As {@link simulate}, with the answer encoded beside this thread: a `SimulateResponse`, or the JSON of `/app/simulate`. What fails
   * has no `encoded`. Undefined: too many wait.
   */
  simulateEncoded?(tx: Bytes, form: "response" | "json", client?: ClientKey): Promise<EncodedSimulation | undefined>;
  /** Resolves when what simulates has started, where that is a thread: its start counts against no time limit of a call. */
  simulationsReady?(): Promise<void>;
  /** The API's JSON of a large message, made beside this thread; undefined when that cannot be now. */
  apiJson?(typeName: string, bytes: Bytes, client?: ClientKey): Promise<string | undefined>;
  /** A large message of the API read from its JSON beside this thread; undefined: too many wait. */
  readApiJson?(typeName: string, json: Bytes, client?: ClientKey): Promise<EncodedMessage | undefined>;
}

/** The bytes of a message that was read, or why there is none. */
export type EncodedMessage =
  | { readonly ok: true; readonly bytes: Bytes }
  | { readonly ok: false; readonly fault: string };

/** A simulation whose answer is encoded already. */
export interface EncodedSimulation {
  /** Without events and data where `encoded` has them. */
  readonly result: TxResult;
  readonly encoded: Bytes | undefined;
}

/** What a chain begins with. */
export interface ChainStart {
  readonly chainId: string;
  readonly initialHeightBlocks: bigint;
  /** Nanoseconds since 1970. */
  readonly timeNanos: bigint;
  readonly appState: Readonly<Record<string, unknown>>;
}

/** A block that was run and is not written yet. */
export interface RunBlock {
  readonly block: BlockInfo;
  readonly outcome: BlockOutcome;
  /** App hash after it. */
  readonly appHash: Bytes;
}

/**
 * The application that both engines drive: the state machine on the store. One block at a time: `run`, then `commit`. The
 * mempool's checks run on a state of their own over the newest block, which every commit makes anew.
 */
export interface DrivenApplication extends Application {
  /**
   * Writes the genesis. Asked again before the first block with the same genesis it answers the same.
   * @throws AppError CONFIG_INVALID when the genesis is not valid, or is not the one that the store began with.
   */
  start(
    genesis: ChainStart,
  ): Promise<{ readonly appHash: Bytes; readonly validatorUpdates: readonly ValidatorUpdate[] }>;
  /** Runs the next block; the last run block is the one that {@link commit} writes. Running another instead is allowed. */
  run(block: BlockInfo, txs: readonly Bytes[]): RunBlock;
  /** Writes the block that was run last, with further records, in one transaction of the store. */
  commit(records: readonly BlockRecord[]): Promise<void>;
  /** How many of these transactions, from the first on, a block may hold by the consensus parameters. */
  fitting(txs: readonly Bytes[]): number;
  /** Checks a transaction for the mempool. @param again it was checked before and a block was committed since */
  check(tx: Bytes, again: boolean): TxResult;
  /**
   * Checks a transaction that has the sequences, or the timeout, of one that waits and was checked on the newest state. The other's
   * fee stays counted until the next block.
   */
  checkReplacement(tx: Bytes): TxResult;
  /**
   * Undoes in the mempool's state that a transaction used its sequences, or its timeout: one that left the mempool without a
   * block, and that none of the same signers follows there. Its fee stays counted until the next block.
   */
  uncheck(tx: Bytes): void;
  /**
   * A trial of the next block: asked for each of its transactions in their order, it answers false for those that would fail before
   * they pay, since an earlier one that it answered true for takes their coins. Once there is no time, or one asks for much gas, it
   * runs no more: then it is false also for those that could fail, by the coins that earlier ones name.
   * @param isOver asked before each that is run
   */
  trial(isOver: () => boolean): (tx: Bytes, facts: TxFacts) => boolean;
  /** Properties of a transaction that a mempool orders by; undefined when it cannot be read. */
  factsOf(tx: Bytes): TxFacts | undefined;
  /** Maximum gas of a block; -1: any. */
  readonly maxBlockGas: bigint;
  /** Maximum bytes of a block; -1: any. */
  readonly maxBlockBytes: bigint;
}
