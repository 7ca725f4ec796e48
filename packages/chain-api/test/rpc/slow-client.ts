import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import type { TestContext } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { startRpcServer } from "../../src/rpc/rpc-server.ts";
import { TestNode } from "./node.ts";

/** More than the buffers of both sockets hold. */
const GENESIS_BYTES = 14_000_000;
const WRITE_TIMEOUT_MS = 60_000;

/**
 * Sends a request for the genesis over a raw connection and reads nothing until the server's time for writing is over.
 * The server must have cut the answer short, and serve others.
 */
export async function assertSlowClientIsCutOff(request: string, context: TestContext): Promise<void> {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const node = new TestNode({ genesis: { app_state: { big: "x".repeat(GENESIS_BYTES) } } });
  await using server = await startRpcServer(
    { host: "127.0.0.1", port: 0, writeTimeoutMs: WRITE_TIMEOUT_MS },
    { node, queries: node.application, log: silentLog, clock: systemClock },
  );
  const slow = connect(Number(new URL(server.url).port), "127.0.0.1");
  slow.pause();
  slow.on("error", () => {});
  slow.write(request);
  const closed = once(slow, "close");
  // The answer has begun. Reading starts when the server has given up.
  await once(slow, "readable");
  context.mock.timers.tick(WRITE_TIMEOUT_MS);
  context.mock.timers.reset();
  let bytes = 0;
  slow.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  slow.resume();
  await closed;
  assert.ok(bytes < GENESIS_BYTES, `${bytes} bytes`);
  assert.equal((await fetch(`${server.url}/health`)).status, 200);
}
