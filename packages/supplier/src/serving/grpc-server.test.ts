import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, constants } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { suite, test } from "node:test";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { ConnectionGuard, silentLog, systemClock } from "@turnpike/base";
import { cosmosVerify } from "@turnpike/crypto";
import { decodeHttpResponsePayload, decodeRelayResponse, relayResponseDigest, splitRelay } from "@turnpike/protocol";
import { eventually } from "@turnpike/testkit";
import { chainParty, jsonRpcPayload } from "@turnpike/testkit/chain";
import { bodyOf, servingRig, startBackEnd } from "../../test/serving-rig.ts";
import { BodyBudget } from "./body-budget.ts";
import { GrpcRelays } from "./grpc-server.ts";
import type { RelayHandler } from "./relay-handler.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}';
const ANSWER = '{"jsonrpc":"2.0","id":1,"result":"0x2a"}';
const METHOD = "/pocket.service.RelayService/SendRelay";

interface GrpcAnswer {
  readonly code: status;
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** A gRPC client of the relay service, as gateways have it. */
function relayClient(url: string) {
  const client = new Client(new URL(url).host, credentials.createInsecure(), {
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
  });
  const call = (bytes: Uint8Array, rpcType: string | undefined, onCall: (cancel: () => void) => void = () => {}) =>
    new Promise<GrpcAnswer>((resolve) => {
      const metadata = new Metadata();
      if (rpcType !== undefined) metadata.set("rpc-type", rpcType);
      const identity = (value: Buffer): Buffer => value;
      const made = client.makeUnaryRequest(
        METHOD,
        identity,
        identity,
        Buffer.from(bytes),
        metadata,
        (error: ServiceError | null, answer?: Buffer) =>
          resolve(
            error === null
              ? { code: status.OK, text: "", bytes: answer ?? new Uint8Array() }
              : { code: error.code, text: error.details, bytes: new Uint8Array() },
          ),
      );
      onCall(() => made.cancel());
    });
  return { call, [Symbol.dispose]: () => client.close() };
}

/** A client that says how long a message is, and sends as much of it as it likes. */
function rawClient(url: string) {
  // What it has not sent yet counts too.
  const session = connect(url, { maxSessionMemory: 100 });
  session.on("error", () => {});
  return {
    /** The gRPC status that ends the call. */
    begin(messageBytes: number, sentBytes: number): Promise<string> {
      const stream = session.request({
        ":method": "POST",
        ":path": METHOD,
        "content-type": "application/grpc",
        te: "trailers",
      });
      const message = Buffer.alloc(5 + sentBytes);
      message.writeUInt32BE(messageBytes, 1);
      stream.write(message);
      stream.on("error", () => {});
      return new Promise((resolve) => {
        stream.once("response", (headers) => resolve(String(headers["grpc-status"])));
      });
    },
    [Symbol.dispose]: () => session.destroy(),
  };
}

const echo = () =>
  startBackEnd((request, response) => {
    void bodyOf(request).then((body) => response.end(body === CALL ? ANSWER : `${request.url} ${body}`));
  });

function innerOf(bytes: Uint8Array): { readonly body: string; readonly isSigned: boolean } {
  const response = decodeRelayResponse(bytes) ?? assert.fail();
  const inner = decodeHttpResponsePayload(response.payload) ?? assert.fail();
  return {
    body: Buffer.from(inner.body).toString("utf8"),
    isSigned: cosmosVerify(relayResponseDigest(response), response.signature, chainParty("supplier").publicKey),
  };
}

suite("relays over gRPC", () => {
  test("SendRelay answers with a signed RelayResponse on the port of HTTP, and the relay is recorded", async () => {
    await using backEnd = await echo();
    await using rig = await servingRig(backEnd.url);
    using client = relayClient(rig.url);
    const request = rig.sign(jsonRpcPayload(CALL));
    const answer = await client.call(request, "3");
    assert.equal(answer.code, status.OK, answer.text);
    assert.deepEqual(innerOf(answer.bytes), { body: ANSWER, isSigned: true });
    const mined = splitRelay(rig.store.relays[0] ?? new Uint8Array())?.request ?? new Uint8Array();
    assert.deepEqual(Buffer.from(mined), Buffer.from(request));
    const rest = await client.call(rig.sign(jsonRpcPayload("body")), "4");
    assert.equal(innerOf(rest.bytes).body, "/rest body");
    const usual = await client.call(rig.sign(jsonRpcPayload("body")), undefined);
    assert.equal(innerOf(usual.bytes).body, "/ body");
    // HTTP/1.1 and HTTP/2 on one port, also at once.
    const [http, grpc] = await Promise.all([rig.call(CALL), client.call(rig.sign(jsonRpcPayload(CALL)), "3")]);
    assert.deepEqual([http.body, grpc.code], [ANSWER, status.OK]);
    assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [5, 0]);
  });

  test("a refusal is a status with the same text as over HTTP, and counted with the same reason", async () => {
    await using backEnd = await echo();
    await using rig = await servingRig(backEnd.url);
    using client = relayClient(rig.url);
    const payload = jsonRpcPayload(CALL);
    const good = rig.sign(payload);
    assert.equal((await client.call(good, "3")).code, status.OK);
    const { header } = rig;
    const cases: readonly (readonly [Uint8Array, status, RegExp, string, string?])[] = [
      [Buffer.from("junk"), status.INVALID_ARGUMENT, /^invalid relay request/, "malformed"],
      [good, status.PERMISSION_DENIED, /served before/, "replayed"],
      [rig.sign(payload, { signer: "stranger" }), status.PERMISSION_DENIED, /ring signature/, "bad_signature"],
      [
        rig.sign(payload, { header: { ...header, sessionId: "ab".repeat(32) } }),
        status.PERMISSION_DENIED,
        /session ID mismatch/,
        "session_mismatch",
      ],
      [
        rig.sign(payload, { header: { ...header, serviceId: "foo" } }),
        status.NOT_FOUND,
        /^unknown service: foo$/,
        "unknown_service",
      ],
      [
        rig.sign(payload, { supplier: chainParty("other").address }),
        status.UNAVAILABLE,
        /not registered with any miner/,
        "unknown_supplier",
      ],
      [rig.sign(payload), status.UNAVAILABLE, /^service temporarily unavailable$/, "no_backend", "5"],
      [new Uint8Array(1_000_000), status.RESOURCE_EXHAUSTED, /^request body too large$/, "too_large"],
    ];
    for (const [bytes, code, text, reason, rpcType = "3"] of cases) {
      const answer = await client.call(bytes, rpcType);
      assert.deepEqual([answer.code, rig.refused.at(-1)], [code, reason], answer.text);
      assert.match(answer.text, text);
    }
    // By its length alone, before it has arrived.
    assert.equal((await client.call(new Uint8Array(5_000_000), "3")).code, status.RESOURCE_EXHAUSTED);
    assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [1, 0]);
    assert.deepEqual([rig.refused.length, rig.refused.at(-1)], [cases.length + 1, "too_large"]);
  });

  test("a large answer arrives whole, and a call that is given up stops its back-end and is not paid", async () => {
    const large = "x".repeat(900_000);
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    const { promise: dropped, resolve: drop } = Promise.withResolvers<void>();
    await using backEnd = await startBackEnd((request, response) => {
      if (request.url === "/") return void response.end(large);
      response.on("close", drop);
      arrive();
    });
    await using rig = await servingRig(backEnd.url);
    using client = relayClient(rig.url);
    assert.equal(innerOf((await client.call(rig.sign(jsonRpcPayload(CALL)), "3")).bytes).body, large);
    const given = await client.call(rig.sign(jsonRpcPayload(CALL)), "4", (cancel) => void arrived.then(cancel));
    assert.equal(given.code, status.CANCELLED);
    await dropped;
    assert.equal(rig.store.relays.length, 1);
  });

  test("what cannot be recorded is not answered", async () => {
    await using backEnd = await echo();
    await using rig = await servingRig(backEnd.url);
    using client = relayClient(rig.url);
    for (const [answer, code] of [
      ["full", status.UNAVAILABLE],
      ["sealed", status.PERMISSION_DENIED],
      ["too-large", status.RESOURCE_EXHAUSTED],
    ] as const) {
      rig.store.answer = answer;
      assert.equal((await client.call(rig.sign(jsonRpcPayload(CALL)), "3")).code, code);
    }
    assert.deepEqual(rig.refused, ["log_failed", "session_sealed", "too_large"]);
  });

  test("messages that never end fill no memory: they are bounded together with those of HTTP", async () => {
    await using backEnd = await echo();
    await using rig = await servingRig(backEnd.url, { options: { maxBodyBytes: 1_600_000 } });
    using client = rawClient(rig.url);
    const statuses: string[] = [];
    for (let i = 0; i < 20; i++) void client.begin(700_000, 690_000).then((found) => statuses.push(found));
    // Two have room.
    await eventually("the end of those without room", () => statuses.length >= 18);
    assert.deepEqual(
      statuses,
      Array.from({ length: 18 }, () => String(status.UNAVAILABLE)),
    );
    assert.deepEqual(
      rig.refused,
      Array.from({ length: 18 }, () => "overloaded"),
    );
    const large = rig.sign(jsonRpcPayload("x".repeat(600_000)));
    assert.equal((await rig.send(large)).status, 503);
    client[Symbol.dispose]();
    // What they held is free again.
    await eventually("room", async () => (await rig.send(large)).status === 200);
    using next = relayClient(rig.url);
    assert.equal((await next.call(rig.sign(jsonRpcPayload("x".repeat(600_000))), "3")).code, status.OK);
  });

  test("a message has the time of a request over HTTP; what has come of it is free again after that", async () => {
    await using backEnd = await echo();
    const options = { maxBodyBytes: 800_000, requestTimeoutMs: 100 };
    await using rig = await servingRig(backEnd.url, { options });
    using client = rawClient(rig.url);
    for (const sent of [0, 3, 690_000]) {
      assert.equal(await client.begin(700_000, sent), String(status.DEADLINE_EXCEEDED), `${sent} bytes`);
    }
    // On a slow machine a request may take longer than that.
    await eventually(
      "room",
      async () => (await rig.send(rig.sign(jsonRpcPayload("x".repeat(600_000))))).status === 200,
    );
  });

  test("a client that does not read its answer does not hold it", async () => {
    await using backEnd = await startBackEnd((_, response) => void response.end("x".repeat(900_000)));
    await using rig = await servingRig(backEnd.url, { options: { requestTimeoutMs: 200 } });
    const session = connect(rig.url);
    const stream = session.request({
      ":method": "POST",
      ":path": METHOD,
      "content-type": "application/grpc",
      te: "trailers",
      "rpc-type": "3",
    });
    stream.on("error", () => {});
    const bytes = rig.sign(jsonRpcPayload(CALL));
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(bytes.length, 1);
    stream.end(Buffer.concat([prefix, bytes]));
    await once(stream, "close");
    assert.deepEqual([stream.rstCode, rig.store.relays.length], [constants.NGHTTP2_CANCEL, 1]);
    session.destroy();
  });

  test("a connection without a call does not keep its place", async () => {
    await using relays = new GrpcRelays(
      { drainTimeoutMs: 1_000, requestTimeoutMs: 1_000, maxRequestBytes: 1_000, idleTimeoutMs: 50 },
      {
        handler: {} as RelayHandler,
        bodies: new BodyBudget(1_000),
        guard: new ConnectionGuard({ maxConnections: 10, maxConnectionsPerClient: 10 }),
        log: silentLog,
        clock: systemClock,
        onFault: () => assert.fail(),
      },
    );
    const server = createServer((socket) => relays.accept(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    await once(session, "close");
    server.close();
    await once(server, "close");
  });
});
