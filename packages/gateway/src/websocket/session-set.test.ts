import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { setImmediate as immediate } from "node:timers/promises";
import { noMetrics } from "@turnpike/base";
import type { WebSocket } from "ws";
import { webSocketOptions } from "../../test/options.ts";
import { service } from "../../test/stand-ins.ts";
import { WebSocketCounts } from "./counts.ts";
import { SessionSet } from "./session-set.ts";
import type { WebSocketSession } from "./websocket-session.ts";

test("a close waits for the closing handshakes of all sockets", async () => {
  const sessions = new SessionSet(webSocketOptions, {
    consumeEvents: async () => true,
    callTimeoutMs: () => 1_000,
    counts: new WebSocketCounts(noMetrics),
  });
  const dropped: string[] = [];
  const session: Partial<WebSocketSession> = {
    client: { service: service("eth"), clientIp: "192.0.2.1", key: undefined, paired: undefined },
    settled: async () => {},
    pause: () => {},
    drop: (reason) => void dropped.push(reason),
    onSocketClosed: () => {},
    drainEvents: () => 0,
  };
  const socket = new EventEmitter();
  sessions.add(session as WebSocketSession, socket as WebSocket, new PassThrough());
  let isClosed = false;
  const closing = sessions.close(1_000, "stopping").then(() => {
    isClosed = true;
  });
  for (let round = 0; round < 3; round++) await immediate();
  assert.deepEqual([dropped, isClosed], [["stopping"], false]);
  socket.emit("close");
  await closing;
  assert.ok(isClosed);
});
