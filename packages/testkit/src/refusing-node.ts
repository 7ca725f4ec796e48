import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { isRecord } from "@turnpike/base";

/** An EVM node behind a provider that refuses some transactions. */
export interface RefusingNode extends AsyncDisposable {
  readonly url: string;
  /** Transactions that were refused. */
  readonly refused: number;
  /** Transactions that reached the node. */
  readonly passed: number;
}

const METHOD = "eth_sendRawTransaction";

/**
 * Starts a proxy on loopback in front of a node. `refuses` sees each signed transaction, as hex, and returns the message
 * of the error that it is answered with, or undefined when it is passed on. Everything else is passed on as it is.
 */
export async function startRefusingNode(
  nodeUrl: string,
  refuses: (raw: string) => string | undefined,
): Promise<RefusingNode> {
  const agent = new Agent({ keepAlive: true });
  let refused = 0;
  let passed = 0;

  const forward = async (body: string): Promise<{ readonly status: number; readonly body: string }> => {
    const sent = request(nodeUrl, { agent, method: "POST", headers: { "content-type": "application/json" } });
    sent.end(body);
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    return { status: answer.statusCode ?? 502, body: await text(answer) };
  };

  /** The error that this call is answered with; undefined when it is passed on. */
  const refusalOf = (call: unknown): object | undefined => {
    if (!isRecord(call) || call.method !== METHOD || !Array.isArray(call.params)) return undefined;
    const message = refuses(String(call.params[0]));
    if (message === undefined) {
      passed++;
      return undefined;
    }
    refused++;
    return { jsonrpc: "2.0", id: call.id, error: { code: -32_000, message } };
  };

  const answer = async (body: string): Promise<{ readonly status: number; readonly body: string }> => {
    if (!body.includes(METHOD)) return forward(body);
    const asked: unknown = JSON.parse(body);
    if (!Array.isArray(asked)) {
      const refusal = refusalOf(asked);
      return refusal === undefined ? forward(body) : { status: 200, body: JSON.stringify(refusal) };
    }
    const refusals = asked.map(refusalOf);
    const rest = asked.filter((_, at) => refusals[at] === undefined);
    const replies: unknown[] = rest.length === 0 ? [] : JSON.parse((await forward(JSON.stringify(rest))).body);
    return { status: 200, body: JSON.stringify([...replies, ...refusals.filter((one) => one !== undefined)]) };
  };

  const server = createServer((req, res) => {
    text(req)
      .then(answer)
      .then(
        (reply) => res.writeHead(reply.status, { "content-type": "application/json" }).end(reply.body),
        () => res.destroy(),
      );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get refused() {
      return refused;
    },
    get passed() {
      return passed;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      agent.destroy();
    },
  };
}
