import { AppError, isRecord } from "@turnpike/base";
import { decodeQuantity, isHex } from "./abi.ts";
import type { EvmNode, EvmRpc, RpcCall, RpcReply } from "./rpc.ts";

/** A block that no re-organisation takes any more. */
export interface Anchor {
  readonly number: bigint;
  readonly hash: string;
}

/** Calls in one exchange beside those for the anchors; a client's default for all is 100. */
const MAX_CALLS = 98;

/**
 * A chain's node that is asked for a block it must have in the same exchange with each question. Another chain may come to be
 * behind a URL without any request that fails, under the same id even: what it says of a payment would be taken for the end
 * of it. The chain of the ledger's newest final settlement counts, or else the first one that is seen for long enough. All readers of a
 * network share one.
 */
export class AnchoredRpc implements EvmRpc {
  readonly host: string;
  /** Each by itself, without an anchor. */
  readonly nodes: readonly EvmNode[];
  readonly #rpc: EvmRpc;
  readonly #finalityBlocks: bigint | undefined;
  readonly #readFirst: (() => Promise<Anchor | undefined>) | undefined;
  #first: Promise<void> | undefined;
  #anchor: Anchor | undefined;
  /** Number of the block that is to be the anchor next. */
  #next: bigint | undefined;

  /** `finalityBlocks`: blocks after which one is final. Without it nothing is compared. `first` reads a block that the chain has. */
  constructor(rpc: EvmRpc, finalityBlocks: number | undefined, first?: () => Promise<Anchor | undefined>) {
    this.#readFirst = first;
    this.host = rpc.host;
    this.nodes = rpc.nodes;
    this.#rpc = rpc;
    this.#finalityBlocks = finalityBlocks === undefined ? undefined : BigInt(finalityBlocks);
  }

  /** The network's rpc: as it is where it has anchors. */
  static of(rpc: EvmRpc, finalityBlocks: number | undefined): AnchoredRpc {
    return rpc instanceof AnchoredRpc ? rpc : new AnchoredRpc(rpc, finalityBlocks);
  }

  /** The same nodes without anchors, for what may be sent to any chain. */
  get plain(): EvmRpc {
    return this.#rpc;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rpc[Symbol.asyncDispose]();
  }

  /** The newest block that was read: one far enough below it is asked for with the next question. */
  saw(head: bigint): void {
    if (this.#finalityBlocks === undefined) return;
    const final = head - this.#finalityBlocks;
    const isNewer = this.#anchor === undefined || final >= this.#anchor.number + this.#finalityBlocks;
    if (final >= 0n && isNewer) this.#next = final;
  }

  /** @throws as {@link EvmRpc.call}, and AppError SETTLEMENT_UNAVAILABLE when the answer is of another chain. */
  async call(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<RpcReply> {
    await this.#haveFirst();
    if (this.#anchor === undefined && this.#next === undefined) return this.#rpc.call(method, params, signal);
    const [reply] = await this.#ask([{ method, params }], signal);
    if (reply === undefined) throw new AppError("INTERNAL", { detail: { method } });
    return reply;
  }

  /** Throws as `call` does. */
  async batch(calls: readonly RpcCall[], signal?: AbortSignal): Promise<readonly RpcReply[]> {
    await this.#haveFirst();
    const parts: Promise<readonly RpcReply[]>[] = [];
    for (let at = 0; at < calls.length; at += MAX_CALLS) parts.push(this.#ask(calls.slice(at, at + MAX_CALLS), signal));
    return (await Promise.all(parts)).flat();
  }

  /** Throws what reading it throws, and reads it again then: without it another chain could become the anchor. */
  #haveFirst(): Promise<void> {
    this.#first ??= this.#setFirst().catch((error: unknown) => {
      this.#first = undefined;
      throw error;
    });
    return this.#first;
  }

  async #setFirst(): Promise<void> {
    const first = await this.#readFirst?.();
    if (first !== undefined) this.#anchor ??= first;
  }

  async #ask(calls: readonly RpcCall[], signal: AbortSignal | undefined): Promise<readonly RpcReply[]> {
    const [anchor, next] = [this.#anchor, this.#next];
    const numbers = [anchor?.number, next].filter((number) => number !== undefined);
    const blocks = numbers.map((number): RpcCall => {
      return { method: "eth_getBlockByNumber", params: [`0x${number.toString(16)}`, false] };
    });
    const replies = await this.#rpc.batch([...calls, ...blocks], signal);
    const seen = replies.slice(calls.length).map(readAnchor);
    const isSame = anchor === undefined || seen[0]?.hash === anchor.hash;
    if (!isSame) {
      const reason = seen[0] === undefined ? "a final block is missing" : "another chain";
      throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: this.host, reason, block: `${anchor.number}` } });
    }
    const latest = next === undefined ? undefined : seen.at(-1);
    if (latest !== undefined && latest.number === next) this.#advance(latest);
    return replies.slice(0, calls.length);
  }

  #advance(latest: Anchor): void {
    if (this.#next === latest.number) this.#next = undefined;
    if (this.#anchor === undefined || this.#anchor.number < latest.number) this.#anchor = latest;
  }
}

function readAnchor(reply: RpcReply): Anchor | undefined {
  const block = reply.ok && isRecord(reply.result) ? reply.result : {};
  const number = decodeQuantity(block.number);
  return number === undefined || !isHex(block.hash) ? undefined : { number, hash: block.hash };
}
