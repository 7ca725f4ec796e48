import { AppError, bytesEqual, bytesToBase64 } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { encodeBlock, txHash, type Validator, type ValidatorSet } from "@turnpike/cometbft";
import type {
  BlockResults,
  ChainSource,
  NodeInfo,
  SearchPage,
  SearchResult,
  StoredBlock,
  StoredTx,
  Submission,
} from "../types.ts";
import { type CometRpc, unreachable } from "./comet-rpc.ts";
import {
  RpcValue,
  readBlock,
  readBlockId,
  readEvents,
  readHeader,
  readTxResult,
  readUpdates,
  readValidator,
} from "./rpc-read.ts";

// What CometBFT says of a height or a hash that it does not have.
const NOT_THERE =
  /(must be less than or equal to|must be greater than 0|is not available, lowest height|not found|could not find results|Could not find)/i;
const PAGE_OUTSIDE = /^page should be within/;
const PAGE_SIZE = 100;
// 10,000 validators: more than any chain has.
const MAX_PAGES = 100;

/** Blocks and transactions of a chain that CometBFT runs, over its RPC. */
export class CometSource implements ChainSource {
  readonly #rpc: CometRpc;

  /** @param modules.rpc stays the caller's */
  constructor(modules: { readonly rpc: CometRpc }) {
    this.#rpc = modules.rpc;
  }

  async nodeInfo(): Promise<NodeInfo> {
    const info = (await this.#get("status", {})).at("node_info");
    return {
      nodeId: info.at("id").text(),
      moniker: info.at("moniker").text(),
      network: info.at("network").text(),
      version: info.at("version").text(),
      listenAddr: info.at("listen_addr").text(),
      rpcAddr: info.at("other").at("rpc_address").text(),
    };
  }

  async latestHeightBlocks(): Promise<bigint> {
    return (await this.#get("status", {})).at("sync_info").at("latest_block_height").integer();
  }

  async block(heightBlocks?: bigint): Promise<StoredBlock | undefined> {
    const found = await this.#find("block", heightParam(heightBlocks));
    if (found === undefined || found.at("block").isNothing) return undefined;
    const block = readBlock(found.at("block"));
    return { block, id: readBlockId(found.at("block_id")), sizeBytes: encodeBlock(block).length };
  }

  async results(heightBlocks: bigint): Promise<BlockResults | undefined> {
    const found = await this.#find("block_results", heightParam(heightBlocks));
    if (found === undefined) return undefined;
    return {
      heightBlocks: found.at("height").integer(),
      txResults: found.at("txs_results").items().map(readTxResult),
      events: readEvents(found.at("finalize_block_events")),
      validatorUpdates: readUpdates(found.at("validator_updates")),
      appHash: found.at("app_hash").base64(),
    };
  }

  /** The proposer is the block's; before there is a block the strongest validator stands there. */
  async validators(heightBlocks?: bigint): Promise<ValidatorSet | undefined> {
    const validators: Validator[] = [];
    let height = heightBlocks;
    for (let page = 1; page <= MAX_PAGES; page++) {
      const params = { ...heightParam(height), page: `${page}`, per_page: `${PAGE_SIZE}` };
      const found = await this.#find("validators", params);
      if (found === undefined) return undefined;
      height = found.at("block_height").integer();
      for (const item of found.at("validators").items()) validators.push(readValidator(item));
      if (validators.length >= found.at("total").number()) break;
    }
    const [first] = validators;
    if (first === undefined) throw unreachable("CometBFT gave a validator set without validators.");
    const header = await this.#find("header", heightParam(height));
    const address = header === undefined ? undefined : readHeader(header.at("header")).proposerAddress;
    const proposer = validators.find((one) => address !== undefined && bytesEqual(one.address, address));
    return { validators, proposer: proposer ?? first };
  }

  async tx(hash: Bytes): Promise<StoredTx | undefined> {
    if (hash.length === 0) return undefined;
    const found = await this.#find("tx", { hash: bytesToBase64(hash), prove: false });
    return found === undefined ? undefined : readStoredTx(found);
  }

  /** @throws AppError INVALID_PARAMS, with CometBFT's words, when the query cannot be read */
  async searchTxs(query: string, { order, skip, take }: SearchPage): Promise<SearchResult<StoredTx>> {
    const items: StoredTx[] = [];
    let total: number | undefined;
    const first = Math.floor(skip / PAGE_SIZE);
    for (let page = first; page * PAGE_SIZE < skip + take; page++) {
      const found = await this.#searchPage(query, order, page + 1);
      if (found === undefined) break;
      total = found.total;
      const from = Math.max(0, skip - page * PAGE_SIZE);
      for (const item of found.items.slice(from, skip + take - page * PAGE_SIZE)) items.push(item);
      if ((page + 1) * PAGE_SIZE >= total) break;
    }
    total ??= (await this.#searchPage(query, order, 1))?.total;
    return { items, total: total ?? 0 };
  }

  async submit(tx: Bytes): Promise<Submission> {
    const hash = txHash(tx);
    const answer = await this.#rpc.call("broadcast_tx_sync", { tx: bytesToBase64(tx) });
    if (!answer.ok) {
      return answer.text === "tx already exists in cache"
        ? { kind: "known", hash }
        : { kind: "refused", hash, text: answer.text };
    }
    return { kind: "checked", hash, result: readTxResult(new RpcValue(answer.result, "result")) };
  }

  // Undefined: there are not that many pages.
  async #searchPage(query: string, order: "asc" | "desc", page: number): Promise<SearchResult<StoredTx> | undefined> {
    const params = { query, prove: false, page: `${page}`, per_page: `${PAGE_SIZE}`, order_by: order };
    const answer = await this.#rpc.call("tx_search", params);
    if (!answer.ok) {
      if (PAGE_OUTSIDE.test(answer.text)) return undefined;
      throw new AppError("INVALID_PARAMS", { message: answer.text });
    }
    const found = new RpcValue(answer.result, "result");
    return { items: found.at("txs").items().map(readStoredTx), total: found.at("total_count").number() };
  }

  async #get(method: string, params: Readonly<Record<string, unknown>>): Promise<RpcValue> {
    const answer = await this.#rpc.call(method, params);
    if (!answer.ok) throw unreachable(`CometBFT refused ${method}: ${answer.text}.`);
    return new RpcValue(answer.result, "result");
  }

  async #find(method: string, params: Readonly<Record<string, unknown>>): Promise<RpcValue | undefined> {
    const answer = await this.#rpc.call(method, params);
    if (answer.ok) return new RpcValue(answer.result, "result");
    if (NOT_THERE.test(answer.text)) return undefined;
    throw unreachable(`CometBFT refused ${method}: ${answer.text}.`);
  }
}

function heightParam(heightBlocks: bigint | undefined): Readonly<Record<string, unknown>> {
  return heightBlocks === undefined ? {} : { height: heightBlocks.toString() };
}

function readStoredTx(json: RpcValue): StoredTx {
  return {
    hash: json.at("hash").hex(),
    heightBlocks: json.at("height").integer(),
    index: json.at("index").number(),
    bytes: json.at("tx").base64(),
    result: readTxResult(json.at("tx_result")),
  };
}
