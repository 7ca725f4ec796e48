import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

/** A CometBFT RPC that says what a test wants. */
export interface FakeRpc extends AsyncDisposable {
  readonly url: string;
  /** Answers by method; a method that is missing is answered with an error. */
  answers: Readonly<Record<string, unknown>>;
}

/** Starts a {@link FakeRpc}. */
export async function startFakeRpc(answers: Readonly<Record<string, unknown>>): Promise<FakeRpc> {
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { id, method } = JSON.parse(body) as { id: unknown; method: string };
      const result = fake.answers[method];
      const error = { code: -32603, message: "Internal error", data: "none" };
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ jsonrpc: "2.0", id, ...(result === undefined ? { error } : { result }) }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const fake: FakeRpc = {
    url: `http://127.0.0.1:${port}`,
    answers,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
  return fake;
}

/** What `status` says of a chain at a height. */
export function statusAt(latest: number, earliest = 1): Readonly<Record<string, unknown>> {
  return {
    node_info: { network: "fake" },
    sync_info: {
      latest_block_height: `${latest}`,
      earliest_block_height: `${earliest}`,
      latest_block_time: "2026-11-22T00:00:00Z",
      catching_up: false,
    },
  };
}
