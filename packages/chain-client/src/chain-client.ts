import { setTimeout as delay } from "node:timers/promises";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { AppError, base64ToBytes, bytesToBase64, bytesToHex, isRecord } from "@turnpike/base";
import { type Any, auth, createMessage, decodeMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { type ChainClientModules, ChainRpc, type ChainRpcOptions } from "./rpc.ts";
import { type Amount, signTx, type TxOrder } from "./sign-tx.ts";
import type { ChainSigner } from "./signer.ts";

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
}

/** How {@link ChainClient.send} sends. */
export interface SendOptions {
  /** Gas limit; without one the simulated gas, times {@link gasAdjustment}. */
  readonly gasLimit?: bigint;
  /** Hundredths; 150 by default. */
  readonly gasAdjustment?: bigint;
  /** By default one upokt for a million units of gas, at least 1. */
  readonly fee?: readonly Amount[];
  readonly memo?: string;
  /** Without one it is ordered, with the account's next sequence. */
  readonly order?: TxOrder;
  readonly timeoutHeight?: bigint;
  readonly signal?: AbortSignal;
}

const GAS_PER_UPOKT = 1_000_000n;
const POLL_MS = 200;

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const whole = (value: unknown): bigint => {
  const found = typeof value === "number" ? String(value) : text(value);
  return /^-?\d+$/.test(found) ? BigInt(found) : 0n;
};
const record = (value: unknown): Readonly<Record<string, unknown>> => (isRecord(value) ? value : {});

/** Nanoseconds since 1970 of a time in RFC 3339. */
function nanosOf(time: string): bigint {
  const [, whole = "", fraction = ""] = /^(.*?)(?:\.(\d{1,9}))?Z$/.exec(time) ?? [];
  const ms = Date.parse(`${whole}Z`);
  return Number.isNaN(ms) ? 0n : BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}

function eventsOf(value: unknown): TxEvent[] {
  return (Array.isArray(value) ? value : []).filter(isRecord).map(({ type, attributes }) => ({
    type: text(type),
    attributes: (Array.isArray(attributes) ? attributes : [])
      .filter(isRecord)
      .map(({ key, value: found }) => ({ key: text(key), value: text(found) })),
  }));
}

/** Queries and transactions over a node's RPC, the same under both engines. */
export class ChainClient implements AsyncDisposable {
  readonly #rpc: ChainRpc;
  readonly #modules: ChainClientModules;

  constructor(options: ChainRpcOptions, modules: ChainClientModules) {
    this.#rpc = new ChainRpc(options);
    this.#modules = modules;
  }

  /** @throws AppError CHAIN_UNREACHABLE */
  async status(signal?: AbortSignal): Promise<ChainStatus> {
    const answer = await this.#rpc.call("status", {}, signal);
    if (!answer.ok) throw new AppError("CHAIN_UNREACHABLE", { message: `The node's status: ${answer.error.data}.` });
    const info = record(answer.result.sync_info);
    return {
      chainId: text(record(answer.result.node_info).network),
      latestHeightBlocks: whole(info.latest_block_height),
      latestTimeNanos: nanosOf(text(info.latest_block_time)),
    };
  }

  /**
   * Asks a query service, at the newest height or at an older one.
   * @throws AppError CHAIN_UNREACHABLE
   */
  async query<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: { readonly heightBlocks?: bigint; readonly signal?: AbortSignal } = {},
  ): Promise<QueryResult<MessageShape<O>>> {
    const path = `/${method.parent.typeName}/${method.name}`;
    const data = bytesToHex(encodeMessage(method.input, createMessage(method.input, request)));
    const height = (options.heightBlocks ?? 0n).toString();
    const answer = await this.#rpc.call("abci_query", { path, data, height, prove: false }, options.signal);
    if (!answer.ok) {
      return { ok: false, code: answer.error.code, codespace: "", text: answer.error.data || answer.error.message };
    }
    const response = record(answer.result.response);
    const code = Number(response.code ?? 0);
    if (code !== 0) return { ok: false, code, codespace: text(response.codespace), text: text(response.log) };
    const decoded = decodeMessage(method.output, base64ToBytes(text(response.value)) ?? new Uint8Array(0));
    if (!decoded.ok) throw new AppError("CHAIN_UNREACHABLE", { message: `The node's answer to ${path} is malformed.` });
    return { ok: true, value: decoded.message, heightBlocks: whole(response.height) };
  }

  /** The same; what the chain refuses is thrown. @throws AppError CHAIN_UNREACHABLE, CHAIN_QUERY_FAILED */
  async ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: { readonly heightBlocks?: bigint; readonly signal?: AbortSignal } = {},
  ): Promise<MessageShape<O>> {
    const answer = await this.query(method, request, options);
    if (answer.ok) return answer.value;
    const { code, codespace } = answer;
    throw new AppError("CHAIN_QUERY_FAILED", { message: answer.text, detail: { code, codespace } });
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

  /** Sends a transaction and waits for the mempool's check. @throws AppError CHAIN_UNREACHABLE, TX_FAILED */
  async broadcast(txBytes: Uint8Array, signal?: AbortSignal): Promise<Broadcast> {
    const answer = await this.#rpc.call("broadcast_tx_sync", { tx: bytesToBase64(txBytes) }, signal);
    if (!answer.ok) throw new AppError("TX_FAILED", { message: answer.error.data || answer.error.message });
    const { hash, code, codespace, log } = answer.result;
    return { hash: text(hash), code: Number(code ?? 0), codespace: text(codespace), log: text(log) };
  }

  /** A transaction in a block; undefined when there is none. @throws AppError CHAIN_UNREACHABLE */
  async tx(hash: string, signal?: AbortSignal): Promise<IncludedTx | undefined> {
    const bytes = Buffer.from(hash, "hex");
    const answer = await this.#rpc.call("tx", { hash: bytesToBase64(bytes), prove: false }, signal);
    if (!answer.ok) return undefined;
    const result = record(answer.result.tx_result);
    return {
      hash: text(answer.result.hash),
      heightBlocks: whole(answer.result.height),
      code: Number(result.code ?? 0),
      codespace: text(result.codespace),
      log: text(result.log),
      gasWanted: whole(result.gas_wanted),
      gasUsed: whole(result.gas_used),
      events: eventsOf(result.events),
    };
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

  /** Signs a transaction: account, sequence, gas and fee are found out where they are not given. */
  async sign(signer: ChainSigner, messages: readonly Any[], options: SendOptions = {}): Promise<Uint8Array> {
    const { signal } = options;
    const [{ chainId }, account] = await Promise.all([this.status(signal), this.account(signer.address, signal)]);
    if (account === undefined) {
      throw new AppError("TX_FAILED", {
        message: `${signer.address} has no account on the chain; send it coins first.`,
      });
    }
    const shared = {
      messages,
      chainId,
      accountNumber: account.accountNumber,
      order: options.order ?? ({ kind: "ordered", sequence: account.sequence } as const),
      ...(options.memo === undefined ? {} : { memo: options.memo }),
      ...(options.timeoutHeight === undefined ? {} : { timeoutHeight: options.timeoutHeight }),
    };
    let gasLimit = options.gasLimit;
    if (gasLimit === undefined) {
      const trial = signTx({ ...shared, gasLimit: 0n, fee: options.fee ?? [{ denom: "upokt", amount: 1n }] }, signer);
      gasLimit = ((await this.simulate(trial, signal)) * (options.gasAdjustment ?? 150n)) / 100n;
    }
    const least = (gasLimit + GAS_PER_UPOKT - 1n) / GAS_PER_UPOKT;
    const fee = options.fee ?? [{ denom: "upokt", amount: least > 0n ? least : 1n }];
    return signTx({ ...shared, gasLimit, fee }, signer);
  }

  /**
   * Signs and sends messages, and waits until they are in a block.
   * @throws AppError TX_FAILED when the mempool or the block refuses them, TX_UNKNOWN, CHAIN_UNREACHABLE
   */
  async send(
    signer: ChainSigner,
    messages: readonly Any[],
    options: SendOptions & { readonly timeoutMs: number },
  ): Promise<IncludedTx> {
    const { signal } = options;
    const sent = await this.broadcast(await this.sign(signer, messages, options), signal);
    const refused = (result: Broadcast): AppError => {
      const { code, codespace, log, hash } = result;
      return new AppError("TX_FAILED", { message: log, detail: { code, codespace, hash } });
    };
    if (sent.code !== 0) throw refused(sent);
    const included = await this.waitForTx(sent.hash, options.timeoutMs, signal);
    if (included.code !== 0) throw refused(included);
    return included;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rpc[Symbol.asyncDispose]();
  }
}
