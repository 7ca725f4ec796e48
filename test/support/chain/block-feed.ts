import { once } from "node:events";
import { AppError } from "@turnpike/base";
import { WebSocket } from "ws";

/** An event as RPC shows it. */
export interface FeedEvent {
  readonly type: string;
  readonly attributes: readonly { readonly key: string; readonly value: string }[];
}

/** A block that was told of. */
export interface FeedBlock {
  readonly heightBlocks: bigint;
  /** 32 bytes. */
  readonly hash: Uint8Array;
  /** Of its beginning and its end. */
  readonly events: readonly FeedEvent[];
}

/** A transaction that was told of. */
export interface FeedTx {
  readonly heightBlocks: bigint;
  readonly code: number;
  readonly log: string;
  readonly events: readonly FeedEvent[];
}

interface Told {
  readonly result?: {
    readonly data?: {
      readonly value: {
        readonly block?: { readonly header: { readonly height: string } };
        readonly block_id?: { readonly hash: string };
        readonly result_finalize_block?: { readonly events?: readonly FeedEvent[] };
        readonly TxResult?: {
          readonly height: string;
          readonly result: { readonly code?: number; readonly log?: string; readonly events?: readonly FeedEvent[] };
        };
      };
    };
    readonly events?: Readonly<Record<string, readonly string[]>>;
  };
}

/** A value of an attribute of an event; JSON values of typed events are read. */
export function attribute(event: FeedEvent, key: string): string {
  const found = event.attributes.find((one) => one.key === key)?.value ?? "";
  return found.startsWith('"') ? String(JSON.parse(found)) : found;
}

/** Blocks and transactions as a node tells of them to a subscriber. */
export class BlockFeed implements AsyncDisposable {
  readonly blocks: FeedBlock[] = [];
  readonly #txs = new Map<string, FeedTx>();
  readonly #socket: WebSocket;
  readonly #listeners = new Set<() => void>();
  #ended = false;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data) => {
      this.#take(JSON.parse(Buffer.isBuffer(data) ? data.toString() : "{}") as Told);
    });
    socket.on("close", () => {
      this.#ended = true;
      this.#wake();
    });
  }

  /** Subscribes to a node by its RPC's address. */
  static async open(rpcUrl: string): Promise<BlockFeed> {
    const socket = new WebSocket(`${rpcUrl.replace(/^http/, "ws")}/websocket`);
    const feed = new BlockFeed(socket);
    await once(socket, "open");
    for (const [id, query] of ["tm.event='NewBlock'", "tm.event='Tx'"].entries()) {
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method: "subscribe", params: { query } }));
    }
    return feed;
  }

  /** The block of a height, as soon as there is one. */
  reach(heightBlocks: bigint): Promise<FeedBlock> {
    return this.#until(() => this.blocks.find((block) => block.heightBlocks >= heightBlocks));
  }

  /** A transaction by its hash (upper-case hex), as soon as it is in a block. */
  tx(hash: string): Promise<FeedTx> {
    return this.#until(() => this.#txs.get(hash));
  }

  /** The first block since a height whose events have one that fits, and that one. */
  event(
    type: string,
    fits: (event: FeedEvent) => boolean = () => true,
  ): Promise<{ readonly block: FeedBlock; readonly event: FeedEvent }> {
    return this.#until(() => {
      for (const block of this.blocks) {
        const event = block.events.find((one) => one.type === type && fits(one));
        if (event !== undefined) return { block, event };
      }
      return undefined;
    });
  }

  /** Calls a listener for every block from now on. */
  onBlock(listener: (block: FeedBlock) => void): () => void {
    let seen = this.blocks.length;
    const look = (): void => {
      while (seen < this.blocks.length) {
        const block = this.blocks[seen++];
        if (block !== undefined) listener(block);
      }
    };
    this.#listeners.add(look);
    return () => void this.#listeners.delete(look);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#socket.readyState === WebSocket.CLOSED) return;
    const closed = once(this.#socket, "close");
    this.#socket.terminate();
    await closed;
  }

  async #until<T>(find: () => T | undefined): Promise<T> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (this.#ended) throw new AppError("CHAIN_UNREACHABLE", { message: "The subscription ended." });
      await new Promise<void>((resolve) => {
        const woken = (): void => {
          this.#listeners.delete(woken);
          resolve();
        };
        this.#listeners.add(woken);
      });
    }
  }

  #take({ result }: Told): void {
    const value = result?.data?.value;
    if (value?.block !== undefined) {
      const events = value.result_finalize_block?.events ?? [];
      const hash = Uint8Array.from(Buffer.from(value.block_id?.hash ?? "", "hex"));
      this.blocks.push({ heightBlocks: BigInt(value.block.header.height), hash, events });
    }
    if (value?.TxResult !== undefined) {
      const { height, result: outcome } = value.TxResult;
      const { code = 0, log = "", events = [] } = outcome;
      const hash = result?.events?.["tx.hash"]?.[0] ?? "";
      this.#txs.set(hash, { heightBlocks: BigInt(height), code, log, events });
    }
    this.#wake();
  }

  #wake(): void {
    // Those that come meanwhile are not of this moment.
    for (const listener of Array.from(this.#listeners)) listener();
  }
}
