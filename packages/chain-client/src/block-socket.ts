import type { Log } from "@turnpike/base";
import { isRecord } from "@turnpike/base";
import { WebSocket } from "ws";
import { recordOf, textOf, wholeOf } from "./rpc-values.ts";

const QUERY = "tm.event='NewBlockHeader'";
const MAX_MESSAGE_BYTES = 1_048_576;
const HANDSHAKE_MS = 10_000;

export interface BlockSocketOptions {
  /** Address of the node's RPC. */
  readonly url: string;
  /** Between pings; a node that answered none meanwhile is given up. */
  readonly pingMs: number;
}

/** Gets what a node sends over a {@link BlockSocket}. */
export interface BlockSocketListener {
  /** The node has taken the subscription: it sends new blocks from now on. */
  subscribed(): void;
  height(heightBlocks: bigint): void;
  /** Once, when the connection is over or never came to be. */
  closed(reason: string): void;
}

function socketUrl(url: string): string {
  const at = new URL(url.replace(/^tcp:/, "http:"));
  at.protocol = at.protocol === "https:" ? "wss:" : "ws:";
  at.pathname = `${at.pathname.replace(/\/$/, "")}/websocket`;
  return at.href;
}

function heightOf(message: unknown): bigint {
  const result = recordOf(recordOf(message).result);
  return wholeOf(recordOf(recordOf(recordOf(result.data).value).header).height);
}

/** One WebSocket to a node, over which it sends the heights of new blocks. */
export class BlockSocket implements Disposable {
  readonly #socket: WebSocket;
  readonly #listener: BlockSocketListener;
  readonly #log: Log;
  readonly #pings: NodeJS.Timeout;
  #isAlive = true;
  #reason = "closed by the node";

  constructor({ url, pingMs }: BlockSocketOptions, listener: BlockSocketListener, { log }: { readonly log: Log }) {
    this.#listener = listener;
    this.#log = log;
    const socket = new WebSocket(socketUrl(url), { maxPayload: MAX_MESSAGE_BYTES, handshakeTimeout: HANDSHAKE_MS });
    this.#socket = socket;
    socket.on("open", () => {
      socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "subscribe", params: { query: QUERY } }));
    });
    socket.on("message", (data) => this.#receive(Buffer.isBuffer(data) ? data.toString("utf8") : ""));
    socket.on("pong", () => {
      this.#isAlive = true;
    });
    socket.on("error", (error) => {
      this.#reason = error.message;
    });
    socket.on("close", () => {
      clearInterval(this.#pings);
      listener.closed(this.#reason);
    });
    this.#pings = setInterval(() => this.#ping(), pingMs);
  }

  #ping(): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    if (!this.#isAlive) {
      this.#reason = "the node is silent";
      this.#socket.terminate();
      return;
    }
    this.#isAlive = false;
    this.#socket.ping();
  }

  #receive(text: string): void {
    this.#isAlive = true;
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      message = undefined;
    }
    if (isRecord(message) && isRecord(message.result)) {
      const height = heightOf(message);
      if (height > 0n) this.#listener.height(height);
      else this.#listener.subscribed();
      return;
    }
    // Such as `subscription was canceled`, or too many clients: another connection may fare better.
    const fault = recordOf(recordOf(message).error);
    this.#reason = textOf(fault.data) || "the node's message cannot be read";
    this.#log.debug({ reason: this.#reason }, "the chain's subscription failed");
    this.#socket.terminate();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#pings);
    this.#socket.terminate();
  }
}
