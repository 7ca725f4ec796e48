import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { PassThrough, Writable } from "node:stream";
import { suite, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { receipt, startStandInGateway } from "../test/gateway.ts";
import { callLine, serveStdioOn } from "../test/stdio-server.ts";

suite("delivery of bought answers over stdio", () => {
  test("attack: an answer is acknowledged when its bytes have left the process, and not when a stream accepts them", async () => {
    await using gateway = await startStandInGateway();
    const waiting: { readonly text: string; readonly flush: () => void }[] = [];
    const output = new Writable({
      decodeStrings: false,
      write: (chunk: string | Buffer, _, flush) => void waiting.push({ text: String(chunk), flush }),
    });
    const { journal, write, server } = serveStdioOn(gateway, output);
    await using _server = server;
    await eventually("initialize is answered", () => waiting.length === 1);
    waiting[0]?.flush();
    write(callLine(1, 1));
    await eventually("the answer is written", () => waiting[1]?.text.includes("Charged once"));
    write(JSON.stringify({ jsonrpc: "2.0", id: 2, method: "ping" }));
    await eventually("ping is answered", () => output.writableLength > (waiting[1]?.text.length ?? 0));
    assert.equal(journal.pendingCount(), 1, "nothing was read so far");
    for (let at = 1; journal.pendingCount() > 0; at += 1) {
      await eventually("a write", () => waiting.length > at);
      waiting[at]?.flush();
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  test("attack: an answer whose stream ends acknowledges nothing", async () => {
    await using gateway = await startStandInGateway();
    let isHeld = false;
    const output = new Writable({
      decodeStrings: false,
      write: (chunk: string, _, flush) => {
        if (String(chunk).includes("Charged once")) isHeld = true;
        else flush();
      },
    });
    output.on("error", () => {});
    const { journal, write, server } = serveStdioOn(gateway, output);
    await using _server = server;
    write(callLine(1, 1));
    await eventually("the answer is written", () => isHeld);
    output.destroy();
    await server.closed;
    assert.equal(journal.pendingCount(), 1);
  });

  test("attack: a request with an id in flight is refused", async () => {
    await using gateway = await startStandInGateway();
    const { promise: sold, resolve: sell } = Promise.withResolvers<void>();
    gateway.onPaid = (_, response) => {
      void sold.then(() => response.writeHead(200, receipt()).end(JSON.stringify({ portal: {}, data: 1 })));
      return true;
    };
    const output = new PassThrough();
    const { signer, journal, write, server } = serveStdioOn(gateway, output);
    await using _server = server;
    const lines = createInterface({ input: output })[Symbol.asyncIterator]();
    await lines.next();
    write(callLine(1, 1));
    await eventually("it is paid", () => gateway.paid.length === 1);
    write(callLine(1, 2));
    const refusal = JSON.parse(String((await lines.next()).value)) as { id?: unknown; error: { message: string } };
    assert.match(refusal.error.message, /in flight/);
    assert.equal(refusal.id, undefined);
    sell();
    assert.match(String((await lines.next()).value), /Charged once/);
    await eventually("it is acknowledged", () => journal.pendingCount() === 0);
    assert.equal(signer.count, 1);
  });
});
