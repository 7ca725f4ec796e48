import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** A call of JSON-RPC that went through. */
export interface ProxiedCall {
  readonly method: string;
  readonly params: { readonly height?: string };
}

/** The part of `commit` that a liar may change. */
export interface SignedHeaderJson {
  readonly header: { height: string; app_hash: string };
  readonly commit: { block_id: { hash: string }; signatures: { signature: string | null }[] };
}

/** A node's RPC seen through someone between. */
export interface RpcProxy extends AsyncDisposable {
  readonly url: string;
  readonly calls: ProxiedCall[];
  /** Changes the signed headers that go through. */
  forge: ((signed: SignedHeaderJson) => void) | undefined;
}

/** Starts someone between a client and a node's RPC. */
export async function startRpcProxy(rpcUrl: string): Promise<RpcProxy> {
  const calls: ProxiedCall[] = [];
  const server = createServer((req, res) => {
    const answer = async (): Promise<void> => {
      const asked = await json(req);
      calls.push(asked as ProxiedCall);
      const headers = { "content-type": "application/json" };
      const response = await fetch(rpcUrl, { method: "POST", headers, body: JSON.stringify(asked) });
      const body = (await response.json()) as { result?: { signed_header?: SignedHeaderJson } };
      const signed = body.result?.signed_header;
      if (signed !== undefined) proxy.forge?.(signed);
      res.writeHead(response.status, headers).end(JSON.stringify(body));
    };
    answer().catch((error: unknown) => res.destroy(error instanceof Error ? error : undefined));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: RpcProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    forge: undefined,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return proxy;
}
