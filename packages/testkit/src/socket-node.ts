import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

/** A block of a stand-in chain. */
export interface FakeBlock {
  readonly number: number;
  readonly hash: string;
  readonly parentHash: string;
  readonly logs: readonly Readonly<Record<string, unknown>>[];
}

const hex = (value: number): string => `0x${value.toString(16)}`;

/** A stand-in for an EVM chain: blocks that tests make, with one log each. */
export class FakeChain {
  readonly blocks: FakeBlock[] = [];
  readonly #listeners = new Set<(block: FakeBlock, removed: readonly FakeBlock[]) => void>();
  #fork = 0;

  constructor() {
    this.blocks.push(this.#make(0, "0x00"));
  }

  #make(number: number, parentHash: string): FakeBlock {
    const hash = `0xb${this.#fork}-${number}`;
    const log = { address: "0xaa", topics: ["0x01"], data: "0x", blockNumber: hex(number), blockHash: hash };
    const logs = [{ ...log, logIndex: "0x0", transactionHash: `0xt${number}`, removed: false }];
    return { number, hash, parentHash, logs };
  }

  get head(): FakeBlock {
    const last = this.blocks.at(-1);
    if (last === undefined) throw new TypeError("a chain has a block");
    return last;
  }

  mine(count = 1): void {
    for (let i = 0; i < count; i++) {
      const block = this.#make(this.head.number + 1, this.head.hash);
      this.blocks.push(block);
      for (const listener of this.#listeners) listener(block, []);
    }
  }

  /** Replaces the last blocks by as many others and one more. */
  reorg(depth: number): void {
    this.#fork++;
    const removed = this.blocks.splice(-depth);
    for (let i = 0; i <= depth; i++) {
      const block = this.#make(this.head.number + 1, this.head.hash);
      this.blocks.push(block);
      for (const listener of this.#listeners) listener(block, i === 0 ? removed : []);
    }
  }

  watch(listener: (block: FakeBlock, removed: readonly FakeBlock[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

const headerOf = ({ number, hash, parentHash }: FakeBlock): Readonly<Record<string, unknown>> => ({
  parentHash,
  hash,
  number: hex(number),
  timestamp: hex(1_000 + number),
});

/** A stand-in for a supplier's WebSocket. */
export interface SocketNode extends AsyncDisposable {
  readonly url: string;
  /** Methods that were called, without the chain check. */
  readonly calls: string[];
  readonly subscriptions: number;
  readonly connections: number;
  /** Ends all connections without a word. */
  drop(): void;
  /** While true new connections are refused. */
  isDown: boolean;
  /** While true no events are sent. */
  isMute: boolean;
  /** Blocks that it is behind the chain in what it answers. */
  lagBlocks: number;
  chainId: string;
  /** Resolves when the method is called next. */
  called(method: string): Promise<void>;
  /** Sends a text to all connections. */
  broadcast(text: string): void;
  /** Answers a call in the node's place. */
  answer: ((method: string, id: number) => string | undefined) | undefined;
}

/** Starts a stand-in over a chain. */
export async function startSocketNode(chain: FakeChain): Promise<SocketNode> {
  const server = new WebSocketServer({
    port: 0,
    host: "127.0.0.1",
    verifyClient: (_info: unknown, done: (ok: boolean, code: number) => void) => done(!node.isDown, 503),
  });
  await once(server, "listening");
  const subscriptions = new Map<string, { readonly socket: WebSocket; readonly kind: string }>();
  const waiters = new Map<string, (() => void)[]>();
  const calls: string[] = [];
  let nextId = 1;
  const visible = (): readonly FakeBlock[] => chain.blocks.slice(0, chain.blocks.length - node.lagBlocks);

  const answerOf = (socket: WebSocket, method: string, params: readonly unknown[]): unknown => {
    const [first, second] = params;
    const blocks = visible();
    const asBlock = (block: FakeBlock | undefined): unknown =>
      block === undefined ? null : { ...headerOf(block), transactions: [], uncles: [], size: "0x1" };
    switch (method) {
      case "eth_chainId":
        return node.chainId;
      case "eth_subscribe": {
        const id = hex(nextId++ + 0xf00);
        subscriptions.set(id, { socket, kind: String(first) });
        return id;
      }
      case "eth_unsubscribe":
        return subscriptions.delete(String(first));
      case "eth_blockNumber":
        return hex(blocks.at(-1)?.number ?? 0);
      case "eth_getBlockByNumber":
        return asBlock(first === "latest" ? blocks.at(-1) : blocks[Number(first)]);
      case "eth_getBlockByHash":
        return asBlock(blocks.find((block) => block.hash === first));
      case "eth_getLogs": {
        const { fromBlock, toBlock } = first as Readonly<Record<string, string>>;
        const range = blocks.filter(({ number }) => number >= Number(fromBlock) && number <= Number(toBlock));
        return range.flatMap((block) => block.logs);
      }
      default:
        return [method, second ?? null];
    }
  };

  const send = (id: string, kind: string, socket: WebSocket, result: unknown): void => {
    const params = `{"subscription":"${id}","result":${JSON.stringify(result)}}`;
    if (subscriptions.get(id)?.kind === kind) {
      socket.send(`{"jsonrpc":"2.0","method":"eth_subscription","params":${params}}`);
    }
  };
  const unwatch = chain.watch((block, removed) => {
    if (node.isMute) return;
    for (const [id, { socket, kind }] of subscriptions) {
      if (kind === "newHeads") send(id, kind, socket, headerOf(block));
      if (kind === "logs") {
        for (const log of removed.flatMap((old) => old.logs)) send(id, kind, socket, { ...log, removed: true });
        for (const log of block.logs) send(id, kind, socket, log);
      }
      if (kind === "newPendingTransactions") send(id, kind, socket, `0xt${block.number}`);
    }
  });

  server.on("connection", (socket) => {
    socket.on("close", () => {
      for (const [id, held] of subscriptions) if (held.socket === socket) subscriptions.delete(id);
    });
    socket.on("message", (data: Buffer) => {
      const { id, method, params } = JSON.parse(data.toString()) as { id: number; method: string; params: unknown[] };
      calls.push(method);
      const own = node.answer?.(method, id);
      socket.send(own ?? JSON.stringify({ jsonrpc: "2.0", id, result: answerOf(socket, method, params) }));
      for (const wake of waiters.get(method)?.splice(0) ?? []) wake();
    });
  });

  const node: SocketNode = {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    isDown: false,
    isMute: false,
    lagBlocks: 0,
    chainId: "0x1",
    answer: undefined,
    get subscriptions() {
      return subscriptions.size;
    },
    get connections() {
      return server.clients.size;
    },
    drop() {
      for (const client of server.clients) client.terminate();
    },
    called(method) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiters.set(method, [...(waiters.get(method) ?? []), resolve]);
      return promise;
    },
    broadcast(text) {
      for (const client of server.clients) client.send(text);
    },
    async [Symbol.asyncDispose]() {
      unwatch();
      for (const client of server.clients) client.terminate();
      server.close();
      await once(server, "close");
    },
  };
  return node;
}
