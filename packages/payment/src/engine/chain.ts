import { type Address, AppError, bytesToHex0x, isRecord, type SettlementId } from "@turnpike/base";
import {
  decodeBool,
  decodeQuantity,
  decodeUint,
  encodeAuthorizationState,
  encodeBalanceOf,
  isHex,
} from "../evm/abi.ts";
import { AnchoredRpc } from "../evm/anchored-rpc.ts";
import { decodeLogs, type EvmLog } from "../evm/logs.ts";
import type { EvmRpc, RpcCall, RpcReply } from "../evm/rpc.ts";
import type { WalletSubjects } from "../ledger-types.ts";
import type { Evidence, PaymentKey, PaymentRecord } from "../types.ts";
import { readCodes, readSubjects } from "../verify/payer-code.ts";

/** Newest block. */
export interface Head {
  readonly number: bigint;
  readonly hash: `0x${string}`;
  readonly timeSeconds: number;
  /** Wei of gas price; zero on chains without one. */
  readonly baseFee: bigint;
}

/** Cost of a settlement, without the price of a unit of gas. */
export interface SettlementCost {
  readonly gas: bigint;
  /** What a rollup charges for publishing the transaction, which is not in its gas. */
  readonly dataFeeWei: bigint;
}

/** What a receipt says of a transaction's cost. */
export interface MinedCost extends SettlementCost {
  /** What was paid for a unit of gas, in wei. */
  readonly gasPriceWei: bigint;
}

/** A mined transaction. */
export interface MinedTransaction extends Omit<Evidence, "logIndex"> {
  readonly succeeded: boolean;
  readonly logs: readonly EvmLog[];
  /** Undefined where the node does not say it. */
  readonly cost?: MinedCost | undefined;
}

/** What {@link SettlementChain.poll} saw, in one exchange. */
export interface ChainView {
  readonly head: Head;
  /** By hash; a transaction that is not mined is absent, one whose answer was unreadable too. */
  readonly mined: ReadonlyMap<string, MinedTransaction>;
  /** Next nonce by relayer, counted to the newest block. */
  readonly nonces: ReadonlyMap<Address, number>;
}

/** How a node took a transaction. */
export type Broadcast =
  /** On its way, or already known. */
  | "sent"
  /** Its nonce is used up: it, a replacement or something else was mined. */
  | "nonce-used"
  /** Another transaction of this nonce offers about as much. */
  | "underpriced"
  /** The relayer cannot pay the gas. */
  | "no-gas"
  /** The node takes nothing at the moment: it is limited, full, or at fault itself. */
  | "busy"
  /** Refused for another reason: it will be refused again. */
  | "refused";

/** What the settlement engine reads of and sends to one chain. Each method throws when the chain cannot be asked. */
export interface SettlementChain {
  head(signal?: AbortSignal): Promise<Head>;
  poll(hashes: readonly string[], relayers: readonly Address[], signal?: AbortSignal): Promise<ChainView>;
  mined(hash: string, signal?: AbortSignal): Promise<MinedTransaction | undefined>;
  send(raw: Uint8Array, signal?: AbortSignal): Promise<{ readonly kind: Broadcast; readonly message: string }>;
  /**
   * Next nonce with those that wait in the node's pool. A node that names one far above the mined ones is not believed:
   * a transaction with that nonce would never be mined.
   */
  pendingNonce(relayer: Address, signal?: AbortSignal): Promise<number>;
  /** Native balances in wei. */
  balances(relayers: readonly Address[], signal?: AbortSignal): Promise<readonly bigint[]>;
  /**
   * True when the token says that the authorization is used or cancelled; with the payer's balance of it. Both at one
   * block, named by its hash: a node that does not have it says so, instead of answering from an older state.
   */
  authorization(
    key: PaymentKey,
    at: Head,
    signal?: AbortSignal,
  ): Promise<{ readonly used: boolean; readonly balance: bigint }>;
  /**
   * Payers of these payments with code in the newest block, by payment: contracts, and accounts that delegated their code
   * (EIP-7702); and those that a factory deploys (ERC-6492).
   */
  wallets(
    payments: readonly Pick<PaymentRecord, "id" | "key" | "signature">[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<SettlementId, WalletSubjects>>;
  /** Hash and time of a block; undefined when there is none of that number. */
  block(number: bigint, signal?: AbortSignal): Promise<Head | undefined>;
  /** Hashes of some blocks, in one exchange; undefined where there is none. */
  blockHashes(numbers: readonly bigint[], signal?: AbortSignal): Promise<readonly (string | undefined)[]>;
  /** Hashes of transactions with an event of the asset with these topics, oldest first. */
  logs(
    asset: Address,
    topics: readonly (string | readonly string[])[],
    from: bigint,
    to: bigint,
    signal?: AbortSignal,
  ): Promise<readonly string[]>;
}

/** More transactions than any node's pool holds of one account. */
const MAX_PENDING = 1_024n;

/** Reads and sends over JSON-RPC. Nothing is read of another chain than the one that was seen first: see {@link AnchoredRpc}. */
export class RpcSettlementChain implements SettlementChain {
  readonly #rpc: AnchoredRpc;
  /** For what may be sent to any chain. */
  readonly #plain: EvmRpc;

  /** `finalityBlocks`: depth from which a block identifies the chain; without it none does. */
  constructor(rpc: EvmRpc, { finalityBlocks }: { readonly finalityBlocks?: number } = {}) {
    this.#rpc = AnchoredRpc.of(rpc, finalityBlocks);
    this.#plain = this.#rpc.plain;
  }

  async head(signal?: AbortSignal): Promise<Head> {
    return this.#newest(await this.#call("eth_getBlockByNumber", ["latest", false], signal));
  }

  async poll(hashes: readonly string[], relayers: readonly Address[], signal?: AbortSignal): Promise<ChainView> {
    const calls: RpcCall[] = [
      ...hashes.map((hash) => ({ method: "eth_getTransactionReceipt", params: [hash] })),
      ...relayers.map((relayer) => ({ method: "eth_getTransactionCount", params: [relayer, "latest"] })),
      // Last, so that the head is never older than a receipt of the same exchange.
      { method: "eth_getBlockByNumber", params: ["latest", false] },
    ];
    const replies = await this.#rpc.batch(calls, signal);
    const mined = new Map<string, MinedTransaction>();
    for (const [at, hash] of hashes.entries()) {
      const found = readReceipt(okResult(replies[at]));
      if (found !== undefined) mined.set(hash, found);
    }
    const nonces = new Map<Address, number>();
    for (const [at, relayer] of relayers.entries()) {
      const nonce = decodeQuantity(okResult(replies[hashes.length + at]));
      if (nonce !== undefined) nonces.set(relayer, Number(nonce));
    }
    return { head: this.#newest(okResult(replies.at(-1))), mined, nonces };
  }

  async mined(hash: string, signal?: AbortSignal): Promise<MinedTransaction | undefined> {
    return readReceipt(await this.#call("eth_getTransactionReceipt", [hash], signal));
  }

  async send(raw: Uint8Array, signal?: AbortSignal): Promise<{ readonly kind: Broadcast; readonly message: string }> {
    const reply = await this.#plain.call("eth_sendRawTransaction", [bytesToHex0x(raw)], signal);
    return reply.ok ? { kind: "sent", message: "" } : { kind: classify(reply.message), message: reply.message };
  }

  async pendingNonce(relayer: Address, signal?: AbortSignal): Promise<number> {
    const method = "eth_getTransactionCount";
    const calls = ["latest", "pending"].map((block) => ({ method, params: [relayer, block] }));
    const replies = await this.#rpc.batch(calls, signal);
    const [mined, pending] = replies.map((reply) => decodeQuantity(okResult(reply)));
    if (mined === undefined || pending === undefined || pending > mined + MAX_PENDING) {
      return unreadable(this.#rpc.host, method);
    }
    return Math.max(Number(mined), Number(pending));
  }

  async balances(relayers: readonly Address[], signal?: AbortSignal): Promise<readonly bigint[]> {
    const method = "eth_getBalance";
    const calls = relayers.map((relayer) => ({ method, params: [relayer, "latest"] }));
    const replies = await this.#rpc.batch(calls, signal);
    return replies.map((reply) => decodeQuantity(okResult(reply)) ?? unreadable(this.#rpc.host, method));
  }

  async authorization(
    key: PaymentKey,
    at: Head,
    signal?: AbortSignal,
  ): Promise<{ readonly used: boolean; readonly balance: bigint }> {
    const { host } = this.#rpc;
    const ask = (block: unknown): Promise<readonly RpcReply[]> =>
      this.#rpc.batch(
        [
          ethCall(key.asset, encodeAuthorizationState(key.from, key.nonce), block),
          ethCall(key.asset, encodeBalanceOf(key.from), block),
        ],
        signal,
      );
    let [state, balance] = await ask({ blockHash: at.hash, requireCanonical: true });
    if (refusesForm(state) || refusesForm(balance)) [state, balance] = await ask(quantity(at.number));
    if (state === undefined || balance === undefined) return unreadable(host, "eth_call");
    const used = decodeBool(resultOf(state, host, "eth_call"));
    const units = decodeUint(resultOf(balance, host, "eth_call"));
    if (used === undefined || units === undefined) return unreadable(host, "eth_call");
    return { used, balance: units };
  }

  async wallets(
    payments: readonly Pick<PaymentRecord, "id" | "key" | "signature">[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<SettlementId, WalletSubjects>> {
    const payers = payments.map(({ key }) => key.from);
    const codes = await readCodes(payers, this.#rpc, signal);
    const subjects = await Promise.all(
      payments.map(async (payment) => {
        const code = codes.get(payment.key.from) ?? "0x";
        return [payment.id, await readSubjects(payment, code, this.#rpc, signal)] as const;
      }),
    );
    return new Map(subjects.filter(([, { classes }]) => classes.length > 0));
  }

  async block(number: bigint, signal?: AbortSignal): Promise<Head | undefined> {
    const found = await this.#call("eth_getBlockByNumber", [quantity(number), false], signal);
    return found === null ? undefined : readHead(found, this.#rpc.host);
  }

  async blockHashes(numbers: readonly bigint[], signal?: AbortSignal): Promise<readonly (string | undefined)[]> {
    const { host } = this.#rpc;
    const method = "eth_getBlockByNumber";
    const calls = numbers.map((number) => ({ method, params: [quantity(number), false] }));
    return (await this.#rpc.batch(calls, signal)).map((reply) => {
      const found = resultOf(reply, host, method);
      return found === null ? undefined : readHead(found, host).hash;
    });
  }

  async logs(
    asset: Address,
    topics: readonly (string | readonly string[])[],
    from: bigint,
    to: bigint,
    signal?: AbortSignal,
  ): Promise<readonly string[]> {
    const { host } = this.#rpc;
    const filter = { address: asset, topics, fromBlock: quantity(from), toBlock: quantity(to) };
    const found = await this.#call("eth_getLogs", [filter], signal);
    if (!Array.isArray(found)) return unreadable(host, "eth_getLogs");
    return found.map((log: unknown) => {
      const hash = isRecord(log) ? log.transactionHash : undefined;
      return isHex(hash) ? hash : unreadable(host, "eth_getLogs");
    });
  }

  #newest(block: unknown): Head {
    const head = readHead(block, this.#rpc.host);
    this.#rpc.saw(head.number);
    return head;
  }

  async #call(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<unknown> {
    return resultOf(await this.#rpc.call(method, params, signal), this.#rpc.host, method);
  }
}

/** Reads a node's refusal of a transaction; the texts are those of geth, erigon, nethermind, besu, reth and anvil. */
export function classify(message: string): Broadcast {
  const text = message.toLowerCase();
  if (/already known|already imported|known transaction|already exists|alreadyknown/.test(text)) return "sent";
  if (/nonce too low|nonce is too low|old ?nonce/.test(text) || hasInOrder(text, "nonce", "lower than"))
    return "nonce-used";
  if (/underpriced|fee too low|feetoolow|max fee per gas less than|too low to (compete|replace)/.test(text)) {
    return "underpriced";
  }
  if (/insufficient funds|insufficient balance|insufficientfunds/.test(text)) return "no-gas";
  if (
    /rate limit|too many requests|limit exceeded|pool is full|nonce too high|internal error|time(d )?.?out|unavailable/.test(
      text,
    ) ||
    hasInOrder(text, "txpool", "full")
  ) {
    return "busy";
  }
  return "refused";
}

function hasInOrder(text: string, first: string, second: string): boolean {
  const at = text.indexOf(first);
  return at >= 0 && text.includes(second, at + first.length);
}

function ethCall(to: Address, data: string, block: unknown): RpcCall {
  return { method: "eth_call", params: [{ to, data }, block] };
}

/** True when the node seems not to take a block's hash (EIP-1898): invalid params, or its parser's complaint. */
function refusesForm(reply: RpcReply | undefined): boolean {
  return (
    reply?.ok === false && (reply.code === -32_602 || /unmarshal|invalid (argument|type|param)/i.test(reply.message))
  );
}

/** A number as JSON-RPC wants it. */
export function quantity(value: bigint): string {
  return `0x${value.toString(16)}`;
}

function okResult(reply: RpcReply | undefined): unknown {
  return reply?.ok === true ? reply.result : undefined;
}

function resultOf(reply: RpcReply, host: string, method: string): unknown {
  if (reply.ok) return reply.result;
  throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host, method, code: reply.code, answer: reply.message } });
}

function unreadable(host: string, method: string): never {
  throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host, method, reason: "unreadable" } });
}

/** Reads a block. @throws AppError SETTLEMENT_UNAVAILABLE when it is none. */
export function readHead(value: unknown, host: string): Head {
  if (!isRecord(value)) return unreadable(host, "eth_getBlockByNumber");
  const number = decodeQuantity(value.number);
  const time = decodeQuantity(value.timestamp);
  const hash = value.hash;
  if (number === undefined || time === undefined || !isHex(hash)) return unreadable(host, "eth_getBlockByNumber");
  return { number, hash, timeSeconds: Number(time), baseFee: decodeQuantity(value.baseFeePerGas) ?? 0n };
}

function readReceipt(value: unknown): MinedTransaction | undefined {
  if (!isRecord(value)) return undefined;
  const blockNumber = decodeQuantity(value.blockNumber);
  const { blockHash, transactionHash } = value;
  const logs = decodeLogs(value.logs);
  if (blockNumber === undefined || !isHex(blockHash) || !isHex(transactionHash) || logs === undefined) return undefined;
  const cost = readCost(value);
  return { transaction: transactionHash, blockNumber, blockHash, succeeded: value.status === "0x1", logs, cost };
}

function readCost({ gasUsed, effectiveGasPrice, l1Fee }: Readonly<Record<string, unknown>>): MinedCost | undefined {
  const gas = decodeQuantity(gasUsed);
  const gasPriceWei = decodeQuantity(effectiveGasPrice);
  if (gas === undefined || gasPriceWei === undefined) return undefined;
  // Rollups of the OP stack charge for their data apart.
  return { gas, gasPriceWei, dataFeeWei: decodeQuantity(l1Fee) ?? 0n };
}
