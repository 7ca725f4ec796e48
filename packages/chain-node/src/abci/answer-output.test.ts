import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { suite, test } from "node:test";
import { cometAbci, createMessage } from "@turnpike/proto";
import { AnswerOutput } from "./answer-output.ts";

const BIG = createMessage(cometAbci.ResponseEchoSchema, { message: "x".repeat(256 * 1024) });

suite("answers to a connection that reads slowly", { timeout: 60_000 }, () => {
  test("each wait leaves nothing on the socket, and the last one ends with it", async () => {
    await using server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const [socket] = (await once(server, "connection")) as [Socket];
    using ending = new DisposableStack();
    ending.defer(() => client.destroy());
    ending.defer(() => socket.destroy());
    const output = new AnswerOutput(socket);
    client.resume();
    const listeners = socket.listenerCount("close");
    for (let n = 0; n < 12; n++) {
      // As a connection whose other side does not read.
      socket.cork();
      const added = output.add({ case: "echo", value: BIG });
      assert.ok(socket.writableNeedDrain, "it waits");
      socket.uncork();
      await added;
    }
    assert.equal(socket.listenerCount("close"), listeners);
    socket.cork();
    const last = assert.rejects(output.add({ case: "echo", value: BIG }), { name: "AbortError" });
    socket.destroy();
    await last;
  });
});
