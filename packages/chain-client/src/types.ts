import type { Amount } from "./amounts.ts";
import type { TxOrder } from "./sign-tx.ts";

/** Where a chain stands. */
export interface ChainStatus {
  readonly chainId: string;
  readonly latestHeightBlocks: bigint;
  /** Of the newest block, nanoseconds since 1970. */
  readonly latestTimeNanos: bigint;
}

/** A query's answer, or why there is none: the code and text of `abci_query`. */
export type QueryResult<T> =
  | { readonly ok: true; readonly value: T; readonly heightBlocks: bigint }
  | { readonly ok: false; readonly code: number; readonly codespace: string; readonly text: string };

/** At which height is asked, and until when. */
export interface AskOptions {
  /** Without one, or with 0: the newest. */
  readonly heightBlocks?: bigint;
  readonly signal?: AbortSignal;
}

/** What became of a transaction that was sent: the mempool's check. */
export interface Broadcast {
  /** Upper-case hex. */
  readonly hash: string;
  readonly code: number;
  readonly codespace: string;
  readonly log: string;
}

/** One attribute of an event. */
export interface TxEvent {
  readonly type: string;
  readonly attributes: readonly { readonly key: string; readonly value: string }[];
}

/** A transaction in a block. */
export interface IncludedTx extends Broadcast {
  readonly heightBlocks: bigint;
  readonly gasWanted: bigint;
  readonly gasUsed: bigint;
  readonly events: readonly TxEvent[];
  /** What the messages answered: TxMsgData. */
  readonly data: Uint8Array;
  readonly info: string;
  /** The transaction itself, as it was sent. */
  readonly txBytes: Uint8Array;
}

/** Some of the transactions that match a query, and how many there are. */
export interface FoundTxs {
  readonly txs: readonly IncludedTx[];
  readonly total: bigint;
}

/** Which transactions are wanted: a query of CometBFT's, such as `tx.height=5`, and which part of what matches. */
export interface TxSearch {
  readonly query: string;
  /** Counted from 1. */
  readonly page: number;
  /** At most 100. */
  readonly perPage: number;
  readonly newestFirst: boolean;
}

/** How a transaction is made of messages. What is not given is asked of the node. */
export interface TxOptions {
  /** Gas limit; without one the simulated gas, times {@link gasAdjustment}. */
  readonly gasLimit?: bigint;
  /** Hundredths; 150 by default. */
  readonly gasAdjustment?: bigint;
  /** By default one upokt for a million units of gas, at least 1. */
  readonly fee?: readonly Amount[] | ((gasLimit: bigint) => readonly Amount[]);
  readonly memo?: string;
  /** Without one it is ordered, with the account's next sequence. */
  readonly order?: TxOrder;
  /** Of an ordered transaction whose {@link order} is not given: last block time at which it is taken. */
  readonly timeoutNanos?: bigint;
  readonly timeoutHeight?: bigint;
  readonly chainId?: string;
  readonly accountNumber?: bigint;
  readonly signal?: AbortSignal;
}

/** How a transaction is sent. */
export interface SendOptions extends TxOptions {
  /** How long it may take until the transaction is in a block. */
  readonly timeoutMs: number;
}
