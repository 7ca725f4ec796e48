import type { Application, ChainEvent, GenesisDocument, TxResult, ValidatorUpdate } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import type { Block, BlockId, Commit, ValidatorSet } from "@turnpike/cometbft";

/** What became of one block, as `block_results` shows it. */
export interface BlockResults {
  readonly heightBlocks: bigint;
  readonly txResults: readonly TxResult[];
  /** Events of the beginning and the end of the block. */
  readonly events: readonly ChainEvent[];
  readonly validatorUpdates: readonly ValidatorUpdate[];
  readonly appHash: Bytes;
}

/** A committed block. */
export interface StoredBlock {
  readonly block: Block;
  readonly id: BlockId;
  readonly sizeBytes: number;
}

/** A transaction in a committed block. */
export interface StoredTx {
  /** SHA-256 of its bytes. */
  readonly hash: Bytes;
  readonly heightBlocks: bigint;
  /** Its place in the block. */
  readonly index: number;
  readonly bytes: Bytes;
  readonly result: TxResult;
}

/** Blocks and what belongs to them, read from the store. */
export interface BlockReads {
  /** 0 before the first block. */
  latestHeightBlocks(): bigint;
  /** First block that is kept. */
  baseHeightBlocks(): bigint;
  block(heightBlocks: bigint): StoredBlock | undefined;
  blockByHash(hash: Bytes): StoredBlock | undefined;
  results(heightBlocks: bigint): BlockResults | undefined;
  /** Commit for a block: from the block after it, or (the newest block) as this node has seen it. `canonical` says which. */
  commit(heightBlocks: bigint): { readonly commit: Commit; readonly canonical: boolean } | undefined;
  /** Validators that sign a block; known one height ahead. */
  validators(heightBlocks: bigint): ValidatorSet | undefined;
  tx(hash: Bytes): StoredTx | undefined;
  /** Transactions and blocks by a query, in the order asked for. @throws AppError when the query cannot be read. */
  searchTxs(query: string, page: SearchPage): Promise<SearchResult<StoredTx>>;
  searchBlocks(query: string, page: SearchPage): Promise<SearchResult<StoredBlock>>;
}

/** Which part of a search's matches is wanted. */
export interface SearchPage {
  readonly order: "asc" | "desc";
  /** Matches to leave out at the beginning. */
  readonly skip: number;
  readonly take: number;
}

/** Some of a search's matches, and how many there are in all. */
export interface SearchResult<T> {
  readonly items: readonly T[];
  readonly total: number;
}

/** What a node does with a transaction that is sent to it. */
export type Submission =
  /** It was checked; code 0 means that it waits for a block. */
  | { readonly kind: "checked"; readonly hash: Bytes; readonly result: TxResult }
  /** It was seen before: `tx already exists in cache`. */
  | { readonly kind: "known"; readonly hash: Bytes }
  /** The node takes no more: the text says why (`mempool is full…`, `Tx too large…`). */
  | { readonly kind: "refused"; readonly hash: Bytes; readonly text: string };

/** Transactions that wait for a block. */
export interface MempoolReads {
  numTxs(): number;
  sizeBytes(): number;
  /** The first ones, in the order in which a block would take them. */
  txs(limit: number): readonly Bytes[];
}

/** An event of a node, as its listeners get it, in this order for every block. */
export type NodeEvent =
  | { readonly type: "NewBlock"; readonly block: StoredBlock; readonly results: BlockResults }
  | { readonly type: "NewBlockHeader"; readonly block: StoredBlock; readonly numTxs: number }
  | { readonly type: "NewBlockEvents"; readonly block: StoredBlock; readonly results: BlockResults }
  | { readonly type: "Tx"; readonly tx: StoredTx }
  | { readonly type: "ValidatorSetUpdates"; readonly updates: readonly ValidatorUpdate[] };

/** What consensus is doing at this moment, for `consensus_state` and `dump_consensus_state`. */
export interface ConsensusMoment {
  /** Height that is being decided. */
  readonly heightBlocks: bigint;
  readonly round: number;
  /** CometBFT's step number: 1 new height, 2 new round, 3 propose, 4 prevote, 6 precommit, 8 commit. */
  readonly step: number;
  /** Nanoseconds since 1970. */
  readonly startTimeNs: bigint;
  readonly commitTimeNs: bigint;
  readonly validators: ValidatorSet;
  readonly lastValidators: ValidatorSet | undefined;
  readonly lastCommit: Commit | undefined;
}

/** The node as CometBFT's RPC shows it: the embedded engine. Under CometBFT the binary serves its own RPC. */
export interface EmbeddedNode extends AsyncDisposable {
  readonly application: Application;
  readonly genesis: GenesisDocument;
  readonly blocks: BlockReads;
  readonly mempool: MempoolReads;
  /** Name for people, from config. */
  readonly moniker: string;
  /** 40 lower-case hex digits, of the node's own key. */
  readonly nodeId: string;
  /** Ed25519 public key that signs blocks, 32 bytes. */
  readonly validatorKey: Bytes;
  moment(): ConsensusMoment;
  /** Checks a transaction and takes it into the mempool. */
  submit(tx: Bytes): Submission;
  /** Checks a transaction without taking it; moves the check state's sequence, as the real node's does, until the next block. */
  check(tx: Bytes): TxResult;
  /** Calls a listener for every event until its function is called. A listener must not throw and must be quick. */
  listen(listener: (event: NodeEvent) => void): () => void;
}

/**
 * Blocks and transactions as REST and gRPC ask for them: from the embedded node, or over HTTP from CometBFT's RPC. A height
 * that is not there is undefined; a fault of the connection throws AppError CHAIN_UNREACHABLE.
 */
export interface ChainSource {
  nodeInfo(): Promise<NodeInfo>;
  latestHeightBlocks(): Promise<bigint>;
  block(heightBlocks?: bigint): Promise<StoredBlock | undefined>;
  results(heightBlocks: bigint): Promise<BlockResults | undefined>;
  validators(heightBlocks?: bigint): Promise<ValidatorSet | undefined>;
  tx(hash: Bytes): Promise<StoredTx | undefined>;
  searchTxs(query: string, page: SearchPage): Promise<SearchResult<StoredTx>>;
  submit(tx: Bytes): Promise<Submission>;
}

/** What `node_info` shows of a node. */
export interface NodeInfo {
  readonly nodeId: string;
  readonly moniker: string;
  readonly network: string;
  /** Version of CometBFT that the node speaks: `0.38.19`. */
  readonly version: string;
  readonly listenAddr: string;
  readonly rpcAddr: string;
}
