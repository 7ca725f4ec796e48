import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { TestNode } from "../../test/rpc/node.ts";
import { assertSlowClientIsCutOff } from "../../test/rpc/slow-client.ts";
import { type RpcServer, type RpcServerOptions, startRpcServer } from "./rpc-server.ts";

const serve = (options: Partial<RpcServerOptions> = {}, node = new TestNode()): Promise<RpcServer> =>
  startRpcServer(
    { host: "127.0.0.1", port: 0, ...options },
    { node, queries: node.application, log: silentLog, clock: systemClock },
  );

/** The whole answer to one request, after which the connection is closed. */
async function answerOf({ url }: RpcServer, request: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write(request);
  let text = "";
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString("latin1");
    const [head = "", body = ""] = text.split("\r\n\r\n");
    const length = /\r\nContent-Length: (\d+)/.exec(head)?.[1];
    if (length !== undefined && body.length >= Number(length)) break;
  }
  socket.destroy();
  return text.replace(/X-Server-Time: \d+/, "X-Server-Time: 0").replace(/Date: [^\r]+/, "Date: now");
}

const plain = (body: string, more = ""): string =>
  `POST / HTTP/1.1\r\nHost: localhost\r\n${more}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
/** The same in a form that is not plain: the server answers it. */
const chunked = (body: string, more = ""): string =>
  `POST / HTTP/1.1\r\nHost: localhost\r\n${more}Transfer-Encoding: chunked\r\n\r\n${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`;

const sorted = (answer: string): string => {
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  return `${head.split("\r\n").sort().join("\n")}\n\n${body}`;
};

describe("plain requests of the RPC", () => {
  it("are answered as all others, byte for byte", async () => {
    await using server = await serve();
    const bodies = [
      '{"jsonrpc":"2.0","id":1,"method":"status"}',
      '{"jsonrpc":"2.0","id":"ü","method":"health","params":{}}',
      '{"jsonrpc":"2.0","id":2,"method":"block","params":{"height":"1"}}',
      '[{"jsonrpc":"2.0","id":1,"method":"health"},{"jsonrpc":"2.0","id":2,"method":"none"}]',
      '{"jsonrpc":"2.0","method":"health"}',
      '{"jsonrpc":"2.0","id":1,"method":"block"}',
      '{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event=\'Tx\'"}}',
      "{",
      '"no request"',
    ];
    for (const body of bodies) {
      assert.equal(sorted(await answerOf(server, plain(body))), sorted(await answerOf(server, chunked(body))), body);
    }
  });

  it("of a foreign page or for a foreign host are refused as all others", async () => {
    await using server = await serve();
    const body = '{"jsonrpc":"2.0","id":1,"method":"health"}';
    for (const request of [
      plain(body, "Origin: https://example.com\r\n"),
      plain(body).replace("Host: localhost", "Host: example.com"),
    ]) {
      assert.match(await answerOf(server, request), /^HTTP\/1\.1 403 /);
    }
  });

  it("whose client does not read the answer are cut off", (context) =>
    assertSlowClientIsCutOff(plain('{"jsonrpc":"2.0","id":1,"method":"genesis"}'), context));
});
