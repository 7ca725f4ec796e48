import { createServer, type Socket } from "node:net";
import { AppError } from "@turnpike/base";
import { serveParent } from "../../lib/child.ts";
import { FINAL_BLOCKS, HEAD_BLOCKS } from "../workloads.ts";

/** Operations of this child: an EVM node that knows its answers by heart, as cheap as Node can be. */
export type BackendOperations = {
  /**
   * `host`: where it listens; `0.0.0.0` is each address of this machine. `keepAliveSeconds`: for so long it says that it
   * keeps connections; it never closes one.
   */
  readonly start: (params: {
    readonly host: string;
    readonly keepAliveSeconds?: number;
  }) => Promise<{ readonly port: number }>;
  /** JSON-RPC calls and HTTP requests since the last time. */
  readonly counted: (params: undefined) => Promise<{ readonly calls: number; readonly requests: number }>;
};

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

const hex = (value: number): string => `0x${value.toString(16)}`;
const word = (value: number): string => `0x${value.toString(16).padStart(64, "0")}`;

function transaction(at: number): object {
  return {
    blockHash: word(at),
    blockNumber: hex(HEAD_BLOCKS),
    from: `0x${"a1".repeat(20)}`,
    gas: "0x5208",
    gasPrice: "0x3b9aca00",
    hash: word(at * 7_919),
    input: `0x${"00".repeat(68)}`,
    nonce: hex(at),
    to: `0x${"b2".repeat(20)}`,
    transactionIndex: hex(at),
    value: "0xde0b6b3a7640000",
    type: "0x2",
    chainId: "0x1",
    v: "0x1",
    r: word(at + 1),
    s: word(at + 2),
  };
}

function block(height: number, transactions: readonly unknown[]): object {
  return {
    number: hex(height),
    hash: word(height),
    parentHash: word(height - 1),
    nonce: "0x0000000000000000",
    sha3Uncles: word(3),
    logsBloom: `0x${"0".repeat(512)}`,
    transactionsRoot: word(4),
    stateRoot: word(5),
    receiptsRoot: word(6),
    miner: `0x${"c3".repeat(20)}`,
    difficulty: "0x0",
    extraData: "0x",
    size: "0x7530",
    gasLimit: "0x1c9c380",
    gasUsed: "0xe4e1c0",
    timestamp: hex(1_700_000_000 + (height - HEAD_BLOCKS) * 12),
    baseFeePerGas: "0x7",
    uncles: [],
    transactions,
  };
}

/** Some 30 KB. */
const LARGE = JSON.stringify(
  block(
    HEAD_BLOCKS,
    Array.from({ length: 36 }, (_, at) => transaction(at)),
  ),
);
const blocks = new Map<number, string>();

function blockText(height: number): string {
  const known = blocks.get(height);
  if (known !== undefined) return known;
  const text = JSON.stringify(block(height, []));
  if (blocks.size < 1_000) blocks.set(height, text);
  return text;
}

function heightOf(tag: unknown): number {
  if (tag === "finalized" || tag === "safe") return FINAL_BLOCKS;
  if (tag === "earliest") return 0;
  return typeof tag === "string" && tag.startsWith("0x") ? Number(tag) : HEAD_BLOCKS;
}

function resultOf({ method, params = [] }: Call): string {
  if (method === "eth_getBalance") return '"0xde0b6b3a7640000"';
  if (method === "eth_blockNumber") return `"${hex(HEAD_BLOCKS)}"`;
  if (method === "eth_getBlockByHash") return LARGE;
  if (method === "eth_getBlockByNumber") return blockText(heightOf(params[0]));
  if (method === "eth_chainId") return '"0x1"';
  if (method === "net_version") return '"1"';
  if (method === "eth_syncing") return "false";
  if (method === "web3_clientVersion") return '"stand-in/1"';
  return "null";
}

const answer = (call: Call): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(call.id ?? null)},"result":${resultOf(call)}}`;

let keepAlive = "";
let calls = 0;
let requests = 0;

function respond(body: string): string {
  const asked = JSON.parse(body) as Call | Call[];
  requests++;
  calls += Array.isArray(asked) ? asked.length : 1;
  const text = Array.isArray(asked) ? `[${asked.map(answer).join(",")}]` : answer(asked);
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n${keepAlive}\r\n${text}`;
}

const HEAD_END = "\r\n\r\n";

/** The first request in the text, all of it Latin-1; undefined when more is to come. */
function readRequest(text: string): { readonly body: string; readonly end: number } | undefined {
  const head = text.indexOf(HEAD_END);
  if (head === -1) return undefined;
  const start = head + HEAD_END.length;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1];
  if (length !== undefined) {
    const end = start + Number(length);
    return text.length < end ? undefined : { body: text.slice(start, end), end };
  }
  let body = "";
  for (let at = start; ; ) {
    const line = text.indexOf("\r\n", at);
    if (line === -1) return undefined;
    const size = Number.parseInt(text.slice(at, line), 16);
    const next = line + 2 + size + 2;
    if (text.length < next) return undefined;
    if (size === 0) return { body, end: next };
    body += text.slice(line + 2, line + 2 + size);
    at = next;
  }
}

/** Plain sockets: a server with more in it would be what is measured. */
function serve(socket: Socket): void {
  let text = "";
  socket.setNoDelay(true);
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    text += chunk;
    for (let found = readRequest(text); found !== undefined; found = readRequest(text)) {
      text = text.slice(found.end);
      socket.write(respond(found.body), "latin1");
    }
  });
  socket.on("error", () => socket.destroy());
}

const server = createServer(serve);

serveParent<BackendOperations>({
  async start({ host, keepAliveSeconds }) {
    if (keepAliveSeconds !== undefined) keepAlive = `Keep-Alive: timeout=${keepAliveSeconds}\r\n`;
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new AppError("INTERNAL");
    return { port: address.port };
  },
  counted() {
    const count = { calls, requests };
    calls = 0;
    requests = 0;
    return Promise.resolve(count);
  },
});
