import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { cosmosVerify } from "@turnpike/crypto";
import { decodeRelayResponse, type RelayResponseFields, relayResponseDigest } from "@turnpike/protocol";
import { chainParty } from "@turnpike/testkit/chain";
import { type RawData, WebSocket, WebSocketServer } from "ws";

/** A frame as it was received. */
export interface Frame {
  readonly bytes: Buffer;
  readonly isBinary: boolean;
}

function frameOf(data: RawData, isBinary: boolean): Frame {
  assert.ok(Buffer.isBuffer(data));
  return { bytes: data, isBinary };
}

/** A back-end over WebSocket, and what it received. */
export interface SocketBackEnd extends AsyncDisposable {
  readonly url: string;
  readonly frames: readonly Frame[];
  readonly handshakes: readonly IncomingMessage[];
  /** Close codes and reasons of its connections. */
  readonly closed: readonly string[];
  /** The newest connection. */
  readonly socket: WebSocket;
}

/** Starts a {@link SocketBackEnd} that answers each frame as the test says. */
export async function startSocketBackEnd(onFrame: (socket: WebSocket, frame: Frame) => void): Promise<SocketBackEnd> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const frames: Frame[] = [];
  const handshakes: IncomingMessage[] = [];
  const closed: string[] = [];
  let newest: WebSocket | undefined;
  server.on("connection", (socket, request) => {
    newest = socket;
    handshakes.push(request);
    socket.on("error", () => {});
    socket.on("message", (data, isBinary) => {
      const frame = frameOf(data, isBinary);
      frames.push(frame);
      onFrame(socket, frame);
    });
    socket.on("close", (code, reason) => closed.push(`${code} ${reason.toString()}`));
  });
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    frames,
    handshakes,
    closed,
    get socket() {
      return newest ?? assert.fail("nothing is connected");
    },
    async [Symbol.asyncDispose]() {
      for (const socket of server.clients) socket.terminate();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A relay's answer in a frame, and whether the operator signed it. */
export interface RelayFrame {
  readonly isBinary: boolean;
  readonly response: RelayResponseFields;
  readonly payload: string;
  readonly isSigned: boolean;
}

/** A client of relays over WebSocket, as gateways are. */
export interface RelaySocket extends AsyncDisposable {
  readonly socket: WebSocket;
  readonly frames: readonly RelayFrame[];
  send(bytes: Uint8Array, isBinary: boolean): void;
  /** The first frames, when there are so many. */
  until(count: number): Promise<readonly RelayFrame[]>;
  readonly closed: Promise<string>;
}

function relayFrameOf({ bytes, isBinary }: Frame): RelayFrame {
  const response = decodeRelayResponse(bytes) ?? assert.fail("no RelayResponse");
  const isSigned = cosmosVerify(relayResponseDigest(response), response.signature, chainParty("supplier").publicKey);
  return { isBinary, response, payload: Buffer.from(response.payload).toString("utf8"), isSigned };
}

/** Connects a {@link RelaySocket}, with the headers of a gateway's handshake. */
export async function openRelaySocket(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<RelaySocket> {
  const socket = new WebSocket(url.replace(/^http/, "ws"), {
    perMessageDeflate: false,
    // A text frame with protobuf in it is no UTF-8.
    skipUTF8Validation: true,
    headers: { "Target-Service-Id": "eth", "App-Address": chainParty("app").address, "Rpc-Type": "2", ...headers },
  });
  const frames: RelayFrame[] = [];
  const waiting = new Set<() => void>();
  socket.on("error", () => {});
  socket.on("message", (data, isBinary) => {
    frames.push(relayFrameOf(frameOf(data, isBinary)));
    for (const look of waiting) look();
  });
  const closed = once(socket, "close").then(([code, reason]: unknown[]) => `${String(code)} ${String(reason)}`);
  await once(socket, "open");
  return {
    socket,
    frames,
    closed,
    send: (bytes, binary) => socket.send(bytes, { binary }),
    until(count) {
      const { promise, resolve, reject } = Promise.withResolvers<readonly RelayFrame[]>();
      socket.once("close", (code, reason) => reject(new TypeError(`closed: ${code} ${String(reason)}`)));
      const look = (): void => {
        if (frames.length < count) return;
        waiting.delete(look);
        resolve(frames.slice(0, count));
      };
      waiting.add(look);
      look();
      return promise;
    },
    async [Symbol.asyncDispose]() {
      socket.terminate();
    },
  };
}
