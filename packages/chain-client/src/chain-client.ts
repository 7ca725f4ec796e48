import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { AppError, bytesToBase64, bytesToHex } from "@turnpike/base";
import { type Any, auth, createMessage, decodeMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { prepareTx } from "./prepare-tx.ts";
import { type ChainClientModules, ChainRpc, type ChainRpcOptions, type RpcAnswer } from "./rpc.ts";
import { bytesOf, includedTxOf, nanosOfTime, recordOf, recordsOf, textOf, wholeOf } from "./rpc-values.ts";
import { signTx, type TxOrder } from "./sign-tx.ts";
import type { ChainSigner } from "./signer.ts";
import type {
  AskOptions,
  Broadcast,
  ChainStatus,
  FoundTxs,
  IncludedTx,
  QueryResult,
  SendOptions,
  TxOptions,
  TxSearch,
} from "./types.ts";
import { unorderedUntil } from "./unordered.ts";

const POLL_MS = 200;
const NANOS_PER_SECOND = 1_000_000_000;
/** Maximum gas of a block: an integer of 64 bits. */
const GAS = /^(-1|\d{1,19})$/;

/** What the chain refused, with its own text. */
export function txRefused({ hash, code, codespace, log }: Broadcast): AppError {
  return new AppError("TX_FAILED", { message: log, detail: { code, codespace, hash } });
}

/** Queries and transactions over a node's RPC, the same under both engines. */
export class ChainClient implements AsyncDisposable {
  readonly #rpc: ChainRpc;
  readonly #modules: ChainClientModules;
  /** Where the marks of unordered transactions begin: another program may send for the same account. */
  #mark = randomInt(NANOS_PER_SECOND);

  constructor(options: ChainRpcOptions, modules: ChainClientModules) {
    this.#rpc = new ChainRpc(options);
    this.#modules = modules;
  }

  /** @throws AppError CHAIN_UNREACHABLE */
  async status(signal?: AbortSignal): Promise<ChainStatus> {
    const answer = await this.#rpc.call("status", {}, signal);
    if (!answer.ok) throw new AppError("CHAIN_UNREACHABLE", { message: `The node's status: ${answer.error.data}.` });
    const info = recordOf(answer.result.sync_info);
    return {
      chainId: textOf(recordOf(answer.result.node_info).network),
      latestHeightBlocks: wholeOf(info.latest_block_height),
      latestTimeNanos: nanosOfTime(textOf(info.latest_block_time)),
    };
  }

  /** Asks any method of the node's RPC. @throws AppError CHAIN_UNREACHABLE */
  call(method: string, params: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<RpcAnswer> {
    return this.#rpc.call(method, params, signal);
  }

  /** Maximum gas of a block by the newest parameters; -1: any. @throws AppError CHAIN_UNREACHABLE */
  async maxBlockGas(signal?: AbortSignal): Promise<bigint> {
    const answer = await this.#rpc.call("consensus_params", {}, signal);
    const params = recordOf(answer.ok ? answer.result.consensus_params : undefined);
    const gas = textOf(recordOf(params.block).max_gas);
    if (GAS.test(gas)) return BigInt(gas);
    throw new AppError("CHAIN_UNREACHABLE", { message: "The node does not say the maximum gas of a block." });
  }

  /**
   * Asks a query service, at the newest height or at an older one.
   * @throws AppError CHAIN_UNREACHABLE
   */
  async query<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: AskOptions = {},
  ): Promise<QueryResult<MessageShape<O>>> {
    const path = `/${method.parent.typeName}/${method.name}`;
    const data = bytesToHex(encodeMessage(method.input, createMessage(method.input, request)));
    const height = (options.heightBlocks ?? 0n).toString();
    const answer = await this.#rpc.call("abci_query", { path, data, height, prove: false }, options.signal);
    if (!answer.ok) {
      return { ok: false, code: answer.error.code, codespace: "", text: answer.error.data || answer.error.message };
    }
    const response = recordOf(answer.result.response);
    const code = Number(response.code ?? 0);
    if (code !== 0) return { ok: false, code, codespace: textOf(response.codespace), text: textOf(response.log) };
    const decoded = decodeMessage(method.output, bytesOf(response.value));
    if (!decoded.ok) throw new AppError("CHAIN_UNREACHABLE", { message: `The node's answer to ${path} is malformed.` });
    return { ok: true, value: decoded.message, heightBlocks: wholeOf(response.height) };
  }

  /** The same; what the chain refuses is thrown. @throws AppError CHAIN_UNREACHABLE, CHAIN_QUERY_FAILED */
  async ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: AskOptions = {},
  ): Promise<MessageShape<O>> {
    const answer = await this.query(method, request, options);
    if (answer.ok) return answer.value;
    const { code, codespace } = answer;
    throw new AppError("CHAIN_QUERY_FAILED", { message: answer.text, detail: { code, codespace } });
  }

  /** Bytes that a module keeps at a key of the newest state, without what proves them; empty where there are none. */
  async stored(module: string, key: Uint8Array, signal?: AbortSignal): Promise<Uint8Array> {
    const params = { path: `/store/${module}/key`, data: bytesToHex(key), height: "0", prove: false };
    const answer = await this.#rpc.call("abci_query", params, signal);
    return answer.ok ? bytesOf(recordOf(answer.result.response).value) : new Uint8Array(0);
  }

  /** Number and sequence of an account; undefined when there is none. @throws AppError CHAIN_UNREACHABLE */
  async account(address: string, signal?: AbortSignal): Promise<auth.BaseAccount | undefined> {
    const options = signal === undefined ? {} : { signal };
    const answer = await this.query(auth.Query.method.account, { address }, options);
    if (!answer.ok || answer.value.account === undefined) return undefined;
    const { typeUrl, value } = answer.value.account;
    if (typeUrl !== `/${auth.BaseAccountSchema.typeName}`) return undefined;
    const decoded = decodeMessage(auth.BaseAccountSchema, value);
    return decoded.ok ? decoded.message : undefined;
  }

  /** Gas that a transaction would use. @throws AppError CHAIN_UNREACHABLE, TX_FAILED */
  async simulate(txBytes: Uint8Array, signal?: AbortSignal): Promise<bigint> {
    const options = signal === undefined ? {} : { signal };
    const answer = await this.query(txs.Service.method.simulate, { txBytes }, options);
    if (answer.ok) return answer.value.gasInfo?.gasUsed ?? 0n;
    const { code, codespace } = answer;
    throw new AppError("TX_FAILED", { message: answer.text, detail: { code, codespace } });
  }

  /**
   * Sends a transaction and waits for the mempool's check, or (`async`) for nothing.
   * @throws AppError CHAIN_UNREACHABLE, TX_FAILED
   */
  async broadcast(txBytes: Uint8Array, signal?: AbortSignal, mode: "sync" | "async" = "sync"): Promise<Broadcast> {
    const answer = await this.#rpc.call(`broadcast_tx_${mode}`, { tx: bytesToBase64(txBytes) }, signal);
    if (!answer.ok) throw new AppError("TX_FAILED", { message: answer.error.data || answer.error.message });
    const { hash, code, codespace, log } = answer.result;
    return { hash: textOf(hash), code: Number(code ?? 0), codespace: textOf(codespace), log: textOf(log) };
  }

  /** A transaction in a block; undefined when there is none. @throws AppError CHAIN_UNREACHABLE */
  async tx(hash: string, signal?: AbortSignal): Promise<IncludedTx | undefined> {
    const bytes = Buffer.from(hash, "hex");
    const answer = await this.#rpc.call("tx", { hash: bytesToBase64(bytes), prove: false }, signal);
    return answer.ok ? includedTxOf(answer.result) : undefined;
  }

  /** Transactions in blocks by a query. @throws AppError CHAIN_UNREACHABLE, CHAIN_QUERY_FAILED */
  async searchTxs({ query, page, perPage, newestFirst }: TxSearch, signal?: AbortSignal): Promise<FoundTxs> {
    const params = { query, prove: false, page: `${page}`, per_page: `${perPage}` };
    const answer = await this.#rpc.call("tx_search", { ...params, order_by: newestFirst ? "desc" : "asc" }, signal);
    if (!answer.ok) {
      const { code, data, message } = answer.error;
      throw new AppError("CHAIN_QUERY_FAILED", { message: data || message, detail: { code } });
    }
    return { txs: recordsOf(answer.result.txs).map(includedTxOf), total: wholeOf(answer.result.total_count) };
  }

  /** Waits until a transaction is in a block. @throws AppError TX_UNKNOWN when the time is over, CHAIN_UNREACHABLE */
  async waitForTx(hash: string, timeoutMs: number, signal?: AbortSignal): Promise<IncludedTx> {
    const { clock } = this.#modules;
    const endMs = clock.monotonicMs() + timeoutMs;
    for (;;) {
      const found = await this.tx(hash, signal);
      if (found !== undefined) return found;
      if (clock.monotonicMs() >= endMs) {
        throw new AppError("TX_UNKNOWN", { message: `${hash} is in no block yet.`, detail: { hash } });
      }
      await delay(POLL_MS, undefined, signal === undefined ? {} : { signal });
    }
  }

  /**
   * Where an unordered transaction stands: by itself, until so long after the newest BLOCK's time. A chain that lags would
   * refuse a time that was counted from this machine's clock. Every call gives another time, up to a second later: two
   * transactions of an account with the same one are the same to the chain.
   * @param timeoutMs two minutes by default; at most 9 min 50 s, since the chain takes ten minutes at most
   */
  async unordered(timeoutMs?: number, signal?: AbortSignal): Promise<TxOrder & { readonly timeoutNanos: bigint }> {
    const { latestTimeNanos } = await this.status(signal);
    this.#mark = (this.#mark + 1) % NANOS_PER_SECOND;
    return { kind: "unordered", timeoutNanos: unorderedUntil(latestTimeNanos, timeoutMs, this.#mark) };
  }

  /** Signs a transaction: account, sequence, gas and fee are found out where they are not given. */
  async sign(signer: ChainSigner, messages: readonly Any[], options: TxOptions = {}): Promise<Uint8Array> {
    return signTx(await prepareTx(this, signer, messages, options), signer);
  }

  /**
   * Signs and sends messages, and waits until they are in a block. Who sends more than one transaction a block for one
   * account takes an `AccountSender`.
   * @throws AppError TX_FAILED when the mempool or the block refuses them, TX_UNKNOWN, CHAIN_UNREACHABLE
   */
  async send(signer: ChainSigner, messages: readonly Any[], options: SendOptions): Promise<IncludedTx> {
    const { signal } = options;
    const sent = await this.broadcast(await this.sign(signer, messages, options), signal);
    if (sent.code !== 0) throw txRefused(sent);
    const included = await this.waitForTx(sent.hash, options.timeoutMs, signal);
    if (included.code !== 0) throw txRefused(included);
    return included;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rpc[Symbol.asyncDispose]();
  }
}
