import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { suite, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { startStandInGateway } from "../test/gateway.ts";
import { callLine, serveStdioOn } from "../test/stdio-server.ts";

const MAX_BYTES = 2 * 1_048_576;

interface Answer {
  readonly id?: number | string;
  readonly error?: { readonly code: number; readonly message: string };
  readonly result?: unknown;
}

/** A server on streams, and the answers that it has written. */
async function served() {
  const gateway = await startStandInGateway();
  const output = new PassThrough();
  const { signer, journal, input, write, server } = serveStdioOn(gateway, output);
  const answers: Answer[] = [];
  createInterface({ input: output }).on("line", (line) => answers.push(JSON.parse(line) as Answer));
  await eventually("initialize is answered", () => answers.length === 1);
  answers.pop();
  return {
    signer,
    journal,
    input,
    write,
    server,
    next: async () => {
      await eventually("an answer", () => answers.length > 0);
      return answers.shift() as Answer;
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await gateway[Symbol.asyncDispose]();
    },
  };
}

const large = (id: unknown, bytes: number): string => {
  const message = JSON.parse(callLine(0, 1)) as { params: { arguments: { request: Record<string, unknown> } } };
  message.params.arguments.request.pad = "";
  const line = JSON.stringify({ ...message, id: undefined, ...(id === undefined ? {} : { id }) });
  return line.replace('"pad":""', `"pad":"${"y".repeat(bytes - Buffer.byteLength(line))}"`);
};

suite("messages over stdio", () => {
  test("attack: a message above the bound is answered with an error, and the session goes on", async () => {
    await using stdio = await served();
    const { write, next, signer } = stdio;
    write(callLine(1, 1));
    assert.equal((await next()).id, 1);
    for (const [id, bytes] of [
      [7, MAX_BYTES + 1],
      ["a-b", 5 * MAX_BYTES],
      [undefined, MAX_BYTES + 1],
    ] as const) {
      write(large(id, bytes));
      const { id: answered, error } = await next();
      assert.equal(answered, id);
      assert.match(error?.message ?? "", /^The message is larger than 2097152 bytes/);
    }
    write(callLine(2, 2));
    assert.equal((await next()).id, 2);
    assert.equal(signer.count, 2, "what is too large buys nothing");
    assert.equal(await Promise.race([stdio.server.closed.then(() => "closed"), Promise.resolve("open")]), "open");
  });

  test("a message at the bound is served", async () => {
    await using stdio = await served();
    stdio.write(large(3, MAX_BYTES));
    const { id, error } = await stdio.next();
    assert.deepEqual([id, error], [3, undefined]);
  });

  test("attack: the id of a message that is too large is never that of another request in flight", async () => {
    await using stdio = await served();
    const { write, next } = stdio;
    // An id within the arguments, and one behind an escaped quote.
    const arguments_ = { pad: "y".repeat(MAX_BYTES), id: 5 };
    write(`${JSON.stringify({ jsonrpc: "2.0", method: "tools/call", params: { arguments: arguments_ } })}`);
    assert.equal((await next()).id, undefined);
    write(`{"pad":"${"y".repeat(MAX_BYTES)}","x\\"id":5}`);
    assert.equal((await next()).id, undefined);
    write(`{"jsonrpc":"2.0","id":6,"method":"ping","params":{"pad":"${"y".repeat(MAX_BYTES)}"}}`);
    assert.equal((await next()).id, 6);
  });

  test("attack: what is nested deeply or has too many values is answered with an error, and the session goes on", async () => {
    await using stdio = await served();
    const { write, next } = stdio;
    for (const data of ["[".repeat(200_000) + "]".repeat(200_000), `[${"0,".repeat(200_000)}0]`]) {
      write(callLine(8, 1).replace('"eth_blockNumber"', data));
      const { id, error } = await next();
      assert.match(error?.message ?? "", /^The message is not JSON of at most 128 levels and 100000 values/);
      assert.equal(id, 8);
    }
    write(JSON.stringify({ jsonrpc: "2.0", id: 9, method: "ping" }));
    assert.equal((await next()).id, 9);
  });

  test("messages arrive in any pieces, and several in one", async () => {
    await using stdio = await served();
    const pings = [1, 2, 3].map((id) => `${JSON.stringify({ jsonrpc: "2.0", id, method: "ping", params: {} })}\r\n`);
    for (const byte of Buffer.from(pings.join(""))) stdio.input.write(Buffer.from([byte]));
    for (const id of [1, 2, 3]) assert.equal((await stdio.next()).id, id);
    stdio.input.write(pings.join(""));
    for (const id of [1, 2, 3]) assert.equal((await stdio.next()).id, id);
    stdio.input.end();
    await stdio.server.closed;
  });
});
