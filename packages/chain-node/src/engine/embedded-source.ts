import type { Bytes } from "@turnpike/chain-store";
import { COMET_VERSION, type ValidatorSet } from "@turnpike/cometbft";
import type {
  BlockResults,
  ChainSource,
  EmbeddedNode,
  NodeInfo,
  SearchPage,
  SearchResult,
  StoredBlock,
  StoredTx,
  Submission,
} from "../types.ts";

/** What the embedded node says of its places. */
export interface EmbeddedSourceOptions {
  /** Where a peer would reach it, such as `tcp://127.0.0.1:26656`; the embedded engine has no peers. */
  readonly listenAddr: string;
  /** Where its RPC is, such as `tcp://127.0.0.1:26657`. */
  readonly rpcAddr: () => string;
}

/** Blocks and transactions of the embedded engine. */
export class EmbeddedSource implements ChainSource {
  readonly #opts: EmbeddedSourceOptions;
  readonly #node: EmbeddedNode;

  constructor(opts: EmbeddedSourceOptions, node: EmbeddedNode) {
    this.#opts = opts;
    this.#node = node;
  }

  async nodeInfo(): Promise<NodeInfo> {
    const { nodeId, moniker, application } = this.#node;
    const { listenAddr, rpcAddr } = this.#opts;
    return { nodeId, moniker, network: application.chainId, version: COMET_VERSION, listenAddr, rpcAddr: rpcAddr() };
  }

  async latestHeightBlocks(): Promise<bigint> {
    return this.#node.blocks.latestHeightBlocks();
  }

  async block(heightBlocks?: bigint): Promise<StoredBlock | undefined> {
    return this.#node.blocks.block(heightBlocks ?? this.#node.blocks.latestHeightBlocks());
  }

  async results(heightBlocks: bigint): Promise<BlockResults | undefined> {
    return this.#node.blocks.results(heightBlocks);
  }

  async validators(heightBlocks?: bigint): Promise<ValidatorSet | undefined> {
    return this.#node.blocks.validators(heightBlocks ?? this.#node.blocks.latestHeightBlocks() + 1n);
  }

  async tx(hash: Bytes): Promise<StoredTx | undefined> {
    return this.#node.blocks.tx(hash);
  }

  async searchTxs(query: string, page: SearchPage): Promise<SearchResult<StoredTx>> {
    return this.#node.blocks.searchTxs(query, page);
  }

  async submit(tx: Bytes): Promise<Submission> {
    return this.#node.submit(tx);
  }
}
