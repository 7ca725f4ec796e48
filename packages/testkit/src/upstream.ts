import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What a stand-in received. */
export interface UpstreamCall {
  readonly verb: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  /** Of a JSON-RPC body. */
  readonly method: string;
  readonly id: string;
  readonly params: unknown;
}

/** A stand-in for a supplier: a real HTTP server on loopback, used by tests only. */
export interface Upstream extends AsyncDisposable {
  readonly url: string;
  readonly calls: UpstreamCall[];
  /** Calls that are no probes. */
  paid(): readonly UpstreamCall[];
}

/** True for the relay's own questions; tests write theirs another way, or ask other things. */
export function isProbe({ method, params }: Pick<UpstreamCall, "method" | "params">): boolean {
  // The survey of its methods.
  if (JSON.stringify(params) === '{"survey":true}') return true;
  const isBlock =
    method === "eth_getBlockByNumber" && /^\["(?:latest|finalized)",false\]$/.test(JSON.stringify(params));
  return isBlock || method === "eth_chainId" || method === "eth_blockNumber";
}

/**
 * `"result":…` of a probe, as a node at a height says it; `chainIdHex` and `heightHex` are hex quantities, `fork` is a hex
 * digit that hashes begin with.
 */
export function probeResult(
  { method }: Pick<UpstreamCall, "method">,
  chainIdHex: string,
  heightHex: string,
  fork = "b",
): string {
  if (method === "eth_chainId") return `"result":"${chainIdHex}"`;
  if (method === "eth_blockNumber") return `"result":"${heightHex}"`;
  const hash = (height: bigint): string => `0x${height.toString(16).padStart(64, fork)}`;
  const height = BigInt(heightHex);
  const block = { number: heightHex, hash: hash(height), parentHash: hash(height - 1n) };
  return `"result":${JSON.stringify(block)}`;
}

/** A JSON-RPC answer. */
export function rpcAnswer(call: UpstreamCall, rest: string): string {
  return `{"jsonrpc":"2.0","id":${call.id},${rest}}`;
}

/** Starts a stand-in. `answer` writes the response, or leaves it open. */
export async function startUpstream(answer: (call: UpstreamCall, response: ServerResponse) => void): Promise<Upstream> {
  const calls: UpstreamCall[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const body = (text.startsWith("{") ? JSON.parse(text) : {}) as Readonly<Record<string, unknown>>;
      const call: UpstreamCall = {
        verb: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        text,
        method: typeof body.method === "string" ? body.method : "",
        id: JSON.stringify(body.id ?? null),
        params: body.params,
      };
      calls.push(call);
      answer(call, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    paid: () => calls.filter((call) => !isProbe(call)),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** A stand-in that answers an EVM's probes for a chain, and everything else by `answer`. */
export function startEvmUpstream(
  answer: (call: UpstreamCall, response: ServerResponse) => void,
  chainIdHex = "0x1",
): Promise<Upstream> {
  return startUpstream((call, response) => {
    if (isProbe(call)) response.end(rpcAnswer(call, probeResult(call, chainIdHex, "0x64")));
    else answer(call, response);
  });
}
