import { WebSocket } from "ws";
import type { Witness } from "./node-witness.ts";

interface Told {
  readonly result?: {
    readonly data?: {
      readonly value: {
        readonly block?: { readonly header: { readonly height: string; readonly app_hash: string } };
        readonly block_id?: { readonly hash: string };
        readonly TxResult?: { readonly height: string; readonly result: { readonly code?: number } };
      };
    };
    readonly events?: Readonly<Record<string, readonly string[]>>;
  };
}

/** A subscriber that tells a {@link Witness} of every block and transaction, until the node dies. */
export interface NodeFeed extends Disposable {
  /** The first block of this subscription; rejects when the connection ends before. */
  readonly firstBlock: Promise<bigint>;
  /** The next one from now on. */
  nextBlock(): Promise<bigint>;
}

/** Subscribes to a node by its RPC's address. */
export function openNodeFeed(rpcUrl: string, witness: Witness): NodeFeed {
  const socket = new WebSocket(`${rpcUrl.replace(/^http/, "ws")}/websocket`);
  let next = Promise.withResolvers<bigint>();
  const firstBlock = next.promise;
  const over = new TypeError("the subscription ended");
  socket.on("open", () => {
    for (const [id, query] of ["tm.event='NewBlock'", "tm.event='Tx'"].entries()) {
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method: "subscribe", params: { query } }));
    }
  });
  const take = (text: string): void => {
    const { result } = JSON.parse(text) as Told;
    const value = result?.data?.value;
    if (value?.block !== undefined) {
      const { height, app_hash: appHash } = value.block.header;
      witness.block(BigInt(height), value.block_id?.hash ?? "", appHash);
      next.resolve(BigInt(height));
      next = Promise.withResolvers<bigint>();
      next.promise.catch(() => {});
    }
    if (value?.TxResult !== undefined) {
      const { height, result: outcome } = value.TxResult;
      const hash = result?.events?.["tx.hash"]?.[0] ?? "";
      witness.tx(hash, { heightBlocks: BigInt(height), code: outcome.code ?? 0 });
    }
  };
  socket.on("message", (data) => {
    try {
      take(Buffer.isBuffer(data) ? data.toString() : "{}");
    } catch (error) {
      witness.failed(error);
    }
  });
  // A killed node's connection ends in whatever way.
  socket.on("error", () => {});
  socket.on("close", () => next.reject(over));
  firstBlock.catch(() => {});
  return {
    firstBlock,
    nextBlock: () => next.promise,
    [Symbol.dispose]: () => socket.terminate(),
  };
}
