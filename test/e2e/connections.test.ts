import assert from "node:assert/strict";
import { type AddressInfo, connect, Server, Socket } from "node:net";
import { after, before, suite, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { productSources, readText, withoutComments } from "../../tools/sources.ts";
import { forcedResets, fuzzConnection, headers, opening, pings, rapidResets, reset, settings } from "./frames.ts";
import { LISTENERS, type Listener, type Served } from "./listeners.ts";

const SEED = Number(process.env.FUZZ_SEED ?? 1) * 1_000_000;
const FUZZ_CONNECTIONS = Number(process.env.FUZZ_CONNECTIONS ?? 200);

/** Beyond the 10 seconds of a head: two checks, and a machine that is busy. */
const HEAD_PATIENCE_MS = 20_000;

/** Sources that create a server and are not in {@link LISTENERS}, with the reason. */
const OTHERS: Readonly<Record<string, string>> = {
  "apps/turnpike/src/workers/primary.ts": "probes whether a port is free",
  "packages/base/src/connection-guard.ts": "the guarded server of the others",
  "packages/chain-api/src/rpc/plain-listener.ts": "part of the chain's RPC, which is in the list",
  "packages/chain-node/src/abci/server.ts": "for the one CometBFT beside it: 16 connections, which last",
  "packages/gateway/src/http/plain-listener.ts": "part of the gateway, which is in the list",
  "packages/http1/src/fast-listener.ts": "what its embedders serve, which are in the list",
  "packages/localnet/src/ports.ts": "probes whether a port is free",
  "packages/supplier/src/operator/operator-lock.ts": "an abstract socket of this machine",
};
const CREATES =
  /\b(?:createServer|createSecureServer|createGuardedServer|createConnectionInjector|bindAsync|fastify)\(|new FastListener\(/;

test("every source that creates a server is in the list of listeners, and has a guard of its connections", () => {
  const creating = productSources().filter((path) => CREATES.test(withoutComments(readText(path))));
  const listed = new Set(Object.values(LISTENERS).flatMap(({ sources }) => sources));
  assert.deepEqual(creating.toSorted(), [...listed, ...Object.keys(OTHERS)].toSorted());
  const unguarded = [...listed].filter((path) => !/\b(?:ConnectionGuard|Http2Guard)\b/.test(readText(path)));
  assert.deepEqual(unguarded, []);
});

const activeHandles = (): readonly unknown[] =>
  (process as unknown as { _getActiveHandles(): readonly unknown[] })._getActiveHandles();

/** Ports that this process listens on, whatever opened them. */
function listeningPorts(): number[] {
  return activeHandles()
    .filter((handle) => handle instanceof Server && handle.listening)
    .flatMap((server) => {
      const address = (server as Server).address() as AddressInfo | string | null;
      return typeof address === "object" && address !== null ? [address.port] : [];
    });
}

/** Resolves when a connection is closed, by an error too. */
const closing = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once("close", () => resolve());
  });

/** Writes in pieces. Returns the number of bytes. */
async function writePieces(socket: Socket, pieces: readonly Buffer[]): Promise<number> {
  let bytes = 0;
  for (const piece of pieces) {
    socket.write(piece);
    bytes += piece.length;
    await new Promise(setImmediate);
  }
  return bytes;
}

/** Resolves when the server, which is of this process, has read so many bytes of a connection, or has closed it. */
async function untilRead(socket: Socket, bytes: number): Promise<void> {
  let isAccepted = false;
  await eventually("the server reads it", () => {
    if (socket.closed) return true;
    const ofServer = activeHandles().find(
      (handle): handle is Socket => handle instanceof Socket && isPeerOf(handle, socket),
    );
    const isGone = isAccepted && ofServer === undefined;
    isAccepted ||= ofServer !== undefined;
    return isGone || (ofServer !== undefined && (ofServer.destroyed || ofServer.bytesRead >= bytes));
  });
}

const isPeerOf = (one: Socket, other: Socket): boolean =>
  one.remotePort === other.localPort && one.localPort === other.remotePort;

function open(port: number, localAddress: string): Socket {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => {});
  return socket;
}

/** Sends one connection of the fuzz, and resolves when it is closed. */
async function sendFuzz(port: number, seed: number): Promise<void> {
  const { pieces, end } = fuzzConnection(seed);
  const socket = open(port, "127.0.0.1");
  const closed = closing(socket);
  socket.resume();
  const bytes = await writePieces(socket, pieces);
  if (end === "reset") socket.resetAndDestroy();
  else {
    if (end === "end") {
      socket.end();
      // A server that waits for more is not asked again.
      await untilRead(socket, bytes);
    }
    socket.destroy();
  }
  await closed;
}

/** True when a server answers anything on a new connection. */
async function isAnswered(port: number, { isHttp2 }: Pick<Listener, "isHttp2">, from: string): Promise<boolean> {
  const socket = open(port, from);
  socket.write(isHttp2 === true ? opening() : "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const answered = new Promise<boolean>((resolve) => {
    socket.once("data", () => resolve(true)).once("close", () => resolve(false));
  });
  const isData = await answered;
  socket.destroy();
  return isData;
}

suite("connections of every listener", { timeout: 300_000 }, () => {
  const owned = new AsyncDisposableStack();
  const running = new Map<string, Served & Listener & { readonly port: number }>();
  const uncaught: unknown[] = [];
  const onUncaught = (error: unknown): void => void uncaught.push(error);
  before(async () => {
    for (const [name, listener] of Object.entries(LISTENERS)) {
      const served = await listener.start(owned);
      running.set(name, { ...listener, ...served, port: Number(new URL(served.url).port) });
    }
    process.on("uncaughtException", onUncaught);
  });
  after(async () => {
    process.off("uncaughtException", onUncaught);
    await owned.disposeAsync();
  });

  /** HTTP/2 bytes that once ended the process, each in one segment and split before its last frame. */
  const ENDINGS: Readonly<Record<string, readonly Buffer[]>> = {
    "no content-type, then a reset": [opening(), headers(1, "/x"), reset(1)],
    "an unknown path, then a reset": [opening(), headers(1, "/x", "application/grpc"), reset(1)],
    "no content-type, then garbage": [opening(), headers(1, "/x"), Buffer.alloc(9, 0xff)],
    "an unknown path, then garbage": [opening(), headers(1, "/x", "application/grpc"), Buffer.alloc(9, 0xff)],
  };
  for (const [what, parts] of Object.entries(ENDINGS)) {
    test(`${what}: the connection ends, and nothing else`, async () => {
      const one = Buffer.concat(parts);
      for (const port of listeningPorts()) {
        for (const pieces of [[one], [one.subarray(0, -9), one.subarray(-9)]]) {
          const socket = open(port, "127.0.0.1").resume();
          await untilRead(socket, await writePieces(socket, pieces));
          socket.destroy();
          await closing(socket);
        }
      }
      assert.deepEqual(uncaught, []);
    });
  }

  test(`fuzzed frames and heads, split and joined, end no more than their connections (seed ${SEED})`, async () => {
    const ports = listeningPorts();
    assert.ok(ports.length >= running.size, `${ports.length} of ${running.size}`);
    await Promise.all(
      ports.map(async (port, of) => {
        for (let at = 0; at < FUZZ_CONNECTIONS; at++) await sendFuzz(port, SEED + of * FUZZ_CONNECTIONS + at);
      }),
    );
    assert.deepEqual(uncaught, []);
    // By another address: the one that sent all this may be refused for a while.
    for (const [name, { port, ...listener }] of running) {
      assert.ok(await isAnswered(port, listener, "127.0.0.3"), name);
    }
  });

  test("one address has no more than its part of the connections, and another one is answered", async () => {
    for (const [name, { port, maxOfClient = 250, ...listener }] of running) {
      const sockets = Array.from({ length: maxOfClient + 50 }, () => open(port, "127.0.0.2").resume());
      await eventually(`${name} closes what is too much`, () => sockets.filter(({ closed }) => closed).length >= 50);
      assert.ok(sockets.filter(({ closed }) => !closed).length <= maxOfClient, name);
      await eventually(`${name} answers another address`, () => isAnswered(port, listener, "127.0.0.3"));
      for (const socket of sockets) socket.destroy();
    }
  });

  test("half a head, and nothing at all, are closed in time", async () => {
    const closed = [...running].flatMap(([name, { port, isHttp2 }]) =>
      ["", isHttp2 === true ? "PRI * HT" : "GET / HTTP/1.1\r\nHos", "POST / HTTP/1.1\r\nHost: localhost\r\nA: "].map(
        async (half) => {
          const socket = open(port, "127.0.0.4").resume();
          socket.write(half);
          const what = `${name} closes ${JSON.stringify(half)}`;
          await eventually(what, () => socket.closed, HEAD_PATIENCE_MS);
        },
      ),
    );
    await Promise.all(closed);
  });

  for (const [at, [what, flood]] of Object.entries({ rapidResets, forcedResets, pings, settings }).entries()) {
    test(`HTTP/2: ${what} end their connection`, async () => {
      const bytes = flood(20_000);
      for (const { port, isHttp2 } of running.values()) {
        if (isHttp2 !== true) continue;
        // Each flood from an address of its own: one that has flooded is refused for a while.
        const socket = open(port, `127.0.0.${10 + at}`).resume();
        socket.write(bytes);
        await closing(socket);
      }
      assert.deepEqual(uncaught, []);
    });
  }
});
