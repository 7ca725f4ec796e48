import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { after, before, suite, test } from "node:test";
import { type RequestId, silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { gatewayOptions } from "../../test/options.ts";
import { HttpServer } from "./server.ts";

const limits = { ...gatewayOptions, maxConnections: 12, maxConnectionsPerClient: 4 };

suite("connections of one client", () => {
  let server: HttpServer;
  const sockets = new Set<Socket>();
  before(async () => {
    server = new HttpServer(limits, {
      log: silentLog,
      requestId: () => "id" as RequestId,
      handle: (_, response) => response.end("ok"),
      isFree: () => false,
    });
    await new Promise<void>((resolve) => {
      server.node.listen(0, "127.0.0.1", resolve);
    });
  });
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.node.closeAllConnections();
    server.node.close();
  });

  /** Opens a connection from an address and asks; true when it was answered, and it stays open then. */
  async function isServed(localAddress: string): Promise<boolean> {
    const socket = connect({ port: (server.node.address() as AddressInfo).port, host: "127.0.0.1", localAddress });
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    socket.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    const [first] = await Promise.race([once(socket, "data"), once(socket, "close")]);
    return first instanceof Buffer;
  }

  async function served(localAddress: string, count: number): Promise<number> {
    let sum = 0;
    for (let at = 0; at < count; at++) sum += (await isServed(localAddress)) ? 1 : 0;
    return sum;
  }

  const openConnections = (): Promise<number> =>
    new Promise((resolve, reject) => {
      server.node.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
    });

  async function closeAll(): Promise<void> {
    for (const socket of sockets) socket.destroy();
    await eventually("all are closed", async () => (await openConnections()) === 0);
  }

  test("one address does not take the room of the others, and has it again when it closes some", async () => {
    assert.equal(await served("127.0.0.2", 20), 4);
    assert.equal(await served("127.0.0.3", 2), 2);
    await closeAll();
    assert.equal(await served("127.0.0.2", 6), 4);
    await closeAll();
  });

  test("a trusted proxy connects for many; a reload changes the bound", async () => {
    server.setLimits({ ...limits, trustedProxies: ["127.0.0.2"] });
    assert.equal(await served("127.0.0.2", 8), 8);
    assert.equal(await served("127.0.0.3", 6), 4);
    await closeAll();
    server.setLimits({ ...limits, maxConnectionsPerClient: 2 });
    assert.equal(await served("127.0.0.2", 8), 2);
    await closeAll();
  });
});
