import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { suite, test } from "node:test";
import { isRecord, type MetricSpec, parseJson, type ServiceId, systemClock } from "@turnpike/base";
import { cosmosSign, Rings, SigningThreads, sha256 } from "@turnpike/crypto";
import {
  decodeHttpRequestPayload,
  decodeRelayRequest,
  encodeHttpResponsePayload,
  encodeRelayResponse,
  type RelayResponseFields,
  relayRequestSignBytes,
  relayResponseDigest,
} from "@turnpike/protocol";
import { virtualClock } from "@turnpike/testkit";
import { chainParty } from "@turnpike/testkit/chain";
import { answer, framed, refuse, startGrpcServer } from "../../test/grpc-server.ts";
import { ByteBudget } from "../transport/byte-budget.ts";
import { GrpcTransport } from "../transport/grpc-transport.ts";
import { HttpTransport } from "../transport/http-transport.ts";
import type { SendPurpose, UpstreamRequest } from "../transport/transport.ts";
import type { GatewaySession } from "./gateway-session.ts";
import { SessionSigners } from "./session-signers.ts";
import type { SessionListener } from "./session-source.ts";
import { SessionSupplierSet } from "./session-supplier-set.ts";
import { SignedRelayTransport } from "./signed-relay-transport.ts";

const SERVICE = "eth" as ServiceId;
const GATEWAY = chainParty("gateway");
const rings = new Rings();

/** Bytes that a supplier sends, or a refusal of its miner. */
type Reply = Uint8Array | { readonly status: number; readonly text: string };

/** How suppliers are reached. */
type Over = "HTTP" | "gRPC";

interface Supplier extends AsyncDisposable {
  readonly name: string;
  readonly over: Over;
  readonly url: string;
  /** Ids of the sessions that it was asked in. */
  readonly asked: string[];
  /** How it answers now; undefined: well. */
  reply: ((response: RelayResponseFields, name: string) => Reply | undefined) | undefined;
}

/** Signs a response with the key of a party. */
const signedBy = (fields: RelayResponseFields, name: string): Uint8Array =>
  encodeRelayResponse({ ...fields, signature: cosmosSign(relayResponseDigest(fields), chainParty(name).privateKey) });

/** gRPC's codes of HTTP statuses. */
const CODES: Readonly<Record<number, number>> = { 403: 7, 429: 8, 502: 14 };
const METHOD = "/pocket.service.RelayService/SendRelay";

/** A server of relays: what it answers to a request's bytes and its type. */
async function serveRelays(
  over: Over,
  reply: (bytes: Uint8Array, rpcType: unknown) => Reply,
): Promise<{ readonly url: string } & AsyncDisposable> {
  if (over === "gRPC") {
    return startGrpcServer(({ stream, headers, body }) => {
      assert.equal(headers[":path"], METHOD);
      const said = reply(body.subarray(5), headers["rpc-type"]);
      if (said instanceof Uint8Array) answer(stream, framed(said), { "grpc-status": "0" });
      else if (said.status === 200) stream.respond({ "content-type": "text/html" }, { endStream: true });
      // Headers have a bound.
      else refuse(stream, CODES[said.status] ?? 2, said.text.slice(0, 2_000));
    });
  }
  const server = createServer();
  server.on("request", (request, response) => {
    void buffer(request).then((bytes) => {
      const said = reply(bytes, request.headers["rpc-type"]);
      if (said instanceof Uint8Array) response.end(said);
      else response.writeHead(said.status).end(JSON.stringify({ error: said.text }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** A supplier that checks a request's ring, and answers a JSON-RPC call with its own name. */
async function startSupplierOver(over: Over, name: string): Promise<Supplier> {
  const asked: string[] = [];
  const server = await serveRelays(over, (bytes, rpcType) => {
    const relay = decodeRelayRequest(bytes);
    const call = decodeHttpRequestPayload(relay?.payload ?? new Uint8Array());
    const digest = relayRequestSignBytes(bytes);
    assert.ok(relay?.header !== undefined && call !== undefined && digest !== undefined);
    const members = [chainParty(relay.header.applicationAddress).publicKey, GATEWAY.publicKey];
    assert.ok(rings.verifyWithin(digest, relay.signature, members).ok, "signed by a member of the session's ring");
    assert.equal(rpcType, "3");
    assert.equal(call.url, `${server.url}/`);
    asked.push(relay.header.sessionId);
    const sent = parseJson(call.body);
    assert.ok(sent.ok && isRecord(sent.value));
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: sent.value.id, result: name }));
    const payload = encodeHttpResponsePayload({
      statusCode: 200,
      headers: [["Content-Type", ["application/json"]]],
      body,
    });
    const fields: RelayResponseFields = {
      header: relay.header,
      signature: new Uint8Array(0),
      payload,
      error: undefined,
      payloadHash: sha256(payload),
    };
    return supplier.reply?.(fields, relay.header.sessionId) ?? signedBy(fields, name);
  });
  const supplier: Supplier = {
    name,
    over,
    url: `${server.url}/`,
    asked,
    reply: undefined,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
  return supplier;
}

/** The session of an application, with these suppliers. */
function sessionOf(sessionId: string, application: string, suppliers: readonly Supplier[]): GatewaySession {
  const { publicKey } = chainParty(application);
  return {
    header: {
      applicationAddress: application,
      serviceId: SERVICE,
      sessionId,
      sessionStartBlockHeight: 1n,
      sessionEndBlockHeight: 20n,
    },
    applicationAddress: application,
    suppliers: suppliers.map(({ name, over, url }) => ({
      operatorAddress: name,
      publicKey: chainParty(name).publicKey,
      urls: new Map([[over === "HTTP" ? "json_rpc" : "grpc", url]]),
    })),
    graceEndHeight: 21n,
    ring: [publicKey, GATEWAY.publicKey].toSorted((a, b) => Buffer.compare(a, b)),
    signer: GATEWAY,
    isPartial: false,
  };
}

interface Scene extends AsyncDisposable {
  readonly set: SessionSupplierSet;
  /** Result of each signed relay, with its purpose. */
  readonly counted: string[];
  /** Puts other sessions into use. */
  turn(sessions: readonly GatewaySession[]): void;
  /** Asks an operator. */
  ask(operator: string, purpose?: SendPurpose, timeoutMs?: number): Promise<string>;
}

function sceneOf(first: readonly GatewaySession[], options: { readonly clock?: typeof systemClock } = {}): Scene {
  const { clock = systemClock } = options;
  let sessions = first;
  const listeners = new Set<SessionListener>();
  const counted: string[] = [];
  const metrics = {
    set() {},
    observe() {},
    count({ name }: MetricSpec, labels: Readonly<Record<string, string>> = {}) {
      if (name === "turnpike_relay_signed_total") counted.push(`${labels["purpose"]} ${labels["result"]}`);
    },
  };
  const threads = new SigningThreads({ threads: 0 });
  const source = {
    sessionsOf: () => sessions,
    hasApplication: () => true,
    isCurrent: () => true,
    onChange(listener: SessionListener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  };
  const budget = new ByteBudget({ maxBytes: 1_048_576 }, { metrics });
  const http = new HttpTransport(
    { connectTimeoutMs: 2_000, maxConnectionsPerOrigin: 8, maxInFlightBytes: 1_048_576 },
    { clock: systemClock, metrics, budget },
  );
  const grpc = new GrpcTransport(
    { method: METHOD, connectTimeoutMs: 2_000, maxCallsPerOrigin: 8 },
    { clock: systemClock, budget },
  );
  const signers = new SessionSigners({ maxSessions: 16 }, { threads });
  const transport = new SignedRelayTransport(
    { extraRelaysPercent: 10 },
    {
      http,
      grpc,
      source,
      signers,
      clock,
      metrics,
      verify: async (...signature) => ((await threads.ecdsaVerify(...signature)).ok ? "valid" : "invalid"),
    },
  );
  const set = new SessionSupplierSet({ service: SERVICE }, { source, http, grpc, transport });
  return {
    set,
    counted,
    turn(next) {
      sessions = next;
      for (const listener of listeners) listener(SERVICE, next);
    },
    async ask(operator, purpose = "client", timeoutMs = 10_000) {
      const endpoint = set.endpoints().find((one) => one.operator === operator && one.rpcType === "json_rpc");
      if (endpoint === undefined) return "no endpoint";
      const request: UpstreamRequest = {
        purpose,
        method: "POST",
        path: "",
        headers: undefined,
        body: Buffer.from('{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[]}'),
        timeoutMs,
        maxResponseBytes: 1_000,
        signal: undefined,
      };
      const response = await transport.send(endpoint, request);
      if (response.ok) return response.isTruncated ? "too large" : Buffer.from(response.body).toString();
      if (response.reason === "over_limit" || response.reason === "bad_signature") set.drop(endpoint, response.reason);
      return response.reason;
    },
    async [Symbol.asyncDispose]() {
      set[Symbol.dispose]();
      signers[Symbol.dispose]();
      await http[Symbol.asyncDispose]();
      await grpc[Symbol.asyncDispose]();
      await threads[Symbol.asyncDispose]();
    },
  };
}

const GOOD = '{"jsonrpc":"2.0","id":7,"result":"a"}';

for (const over of ["HTTP", "gRPC"] as const)
  suite(`relays of sessions over ${over}`, () => {
    const startSupplier = (name: string) => startSupplierOver(over, name);

    test("a request is signed for its session, and the checked answer is the supplier's own", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a])]);
      assert.equal(await scene.ask("a"), GOOD);
      assert.deepEqual(a.asked, ["s1"]);
      assert.deepEqual(scene.counted, ["client answered"]);
    });

    const attacks: Readonly<Record<string, (fields: RelayResponseFields) => Uint8Array>> = {
      "is signed by another": (fields) => signedBy(fields, "stranger"),
      "is not signed": (fields) => encodeRelayResponse(fields),
      "was changed after it was signed": (fields) => {
        const signature = cosmosSign(relayResponseDigest(fields), chainParty("a").privateKey);
        const payload = encodeHttpResponsePayload({ statusCode: 200, headers: [], body: Buffer.from("{}") });
        return encodeRelayResponse({ ...fields, payload, signature });
      },
      "is of another session": (fields) => {
        assert.ok(fields.header !== undefined);
        return signedBy({ ...fields, header: { ...fields.header, sessionId: "s0" } }, "a");
      },
    };
    for (const [what, reply] of Object.entries(attacks))
      test(`an answer that ${what} is not used, and its supplier is out for good`, async () => {
        await using a = await startSupplier("a");
        await using b = await startSupplier("b");
        await using scene = sceneOf([sessionOf("s1", "app", [a, b])]);
        a.reply = reply;
        assert.equal(await scene.ask("a"), "bad_signature");
        a.reply = undefined;
        assert.equal(await scene.ask("a"), "no endpoint");
        scene.turn([sessionOf("s2", "app", [a, b])]);
        assert.equal(await scene.ask("a"), "no endpoint", "nor in the next session");
        assert.equal(await scene.ask("b"), GOOD.replace('"a"', '"b"'));
        assert.deepEqual(scene.counted, ["client bad_signature", "client answered"]);
      });

    test("where one application has nothing left, another one pays; with none left the supplier rests until the next session", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a]), sessionOf("t1", "app2", [a])]);
      const full = { status: 429, text: "session relay limit reached: claimable portion fully consumed" };
      a.reply = (_fields, sessionId) => (sessionId === "s1" ? full : undefined);
      for (let n = 0; n < 4; n++) assert.equal(await scene.ask("a"), GOOD);
      assert.equal(a.asked.filter((id) => id === "s1").length, 1, "it is not asked again in a session that is used up");
      // The network's relay miner says it so over gRPC.
      a.reply = () => (over === "HTTP" ? full : { status: 429, text: "relay rejected - stake limit exceeded" });
      assert.equal(await scene.ask("a"), "over_limit");
      a.reply = undefined;
      assert.equal(await scene.ask("a"), "no endpoint");
      scene.turn([sessionOf("s2", "app", [a])]);
      assert.equal(await scene.ask("a"), GOOD);
    });

    test("a refusal of one session, reported late, takes nothing from the session that came meanwhile", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a])]);
      const [endpoint] = scene.set.endpoints();
      assert.ok(endpoint !== undefined);
      scene.turn([sessionOf("s2", "app", [a])]);
      scene.set.drop(endpoint, "over_limit");
      assert.equal(await scene.ask("a"), GOOD);
      assert.deepEqual(a.asked, ["s2"]);
    });

    test("a supplier that has left the session already is asked again in the next one", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a])]);
      a.reply = (_fields, sessionId) => {
        if (sessionId !== "s1") return undefined;
        scene.turn([sessionOf("s2", "app", [a])]);
        return {
          status: 403,
          text: "session expired, session end height: 20, current height: 22 (grace period elapsed)",
        };
      };
      assert.equal(await scene.ask("a"), GOOD);
      assert.deepEqual(a.asked, ["s1", "s2"]);
      assert.deepEqual(scene.counted, ["client session_over", "client answered"]);
    });

    test("a supplier that goes on saying that a session is over which is not has failed the call", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a])]);
      a.reply = () => ({ status: 403, text: "session expired, session end height: 20, current height: 22" });
      assert.equal(await scene.ask("a"), "connection");
      assert.equal(a.asked.length, 8);
    });

    test("probes, hedges and comparisons are bounded, and calls of clients are not", async () => {
      await using a = await startSupplier("a");
      const clock = virtualClock();
      await using scene = sceneOf([sessionOf("s1", "app", [a])], { clock });
      const results: string[] = [];
      for (let n = 0; n < 70; n++) results.push(await scene.ask("a", "probe"));
      assert.equal(results.filter((result) => result === GOOD).length, 60);
      assert.equal(results.at(-1), "overloaded");
      for (let n = 0; n < 20; n++) assert.equal(await scene.ask("a", n % 2 === 0 ? "client" : "retry"), GOOD);
      assert.equal(await scene.ask("a", "hedge"), GOOD, "a tenth of what clients send");
      assert.equal(await scene.ask("a", "comparison"), GOOD);
      assert.equal(await scene.ask("a", "comparison"), "overloaded");
      clock.advance(10_000);
      assert.equal(await scene.ask("a", "probe"), GOOD, "an idle service is probed now and then");
      assert.equal(await scene.ask("a", "probe"), "overloaded");
    });

    test("a large answer to a question of ours is its supplier's fault, whether it is signed or not", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a])]);
      a.reply = (fields) => {
        const payload = encodeHttpResponsePayload({ statusCode: 200, headers: [], body: Buffer.alloc(1_001, 0x20) });
        return signedBy({ ...fields, payload, payloadHash: sha256(payload) }, "a");
      };
      assert.equal(await scene.ask("a", "probe"), "connection");
      // Too large to be read, and so to be checked.
      a.reply = () => Buffer.alloc(1_000_000);
      assert.equal(await scene.ask("a", "probe"), "connection");
      assert.equal(
        await scene.ask("a"),
        "too large",
        "how large the answer to a client's question is depends on the client",
      );
      assert.deepEqual(scene.counted, ["probe too_large", "probe too_large", "client too_large"]);
    });

    test("a refusal is its supplier's fault also where it is too large to be read", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a])]);
      for (const text of ["backend error", " ".repeat(1_000_000)]) {
        a.reply = () => ({ status: 502, text });
        assert.equal(await scene.ask("a"), "connection");
      }
      assert.deepEqual(scene.counted, ["client refused", "client refused"]);
    });

    test("an answer that is larger than the request allows is cut off, and a page of a proxy is none", async () => {
      await using a = await startSupplier("a");
      await using scene = sceneOf([sessionOf("s1", "app", [a])]);
      a.reply = (fields) => {
        const payload = encodeHttpResponsePayload({ statusCode: 200, headers: [], body: Buffer.alloc(1_001, 0x20) });
        return signedBy({ ...fields, payload, payloadHash: sha256(payload) }, "a");
      };
      assert.equal(await scene.ask("a"), "too large");
      a.reply = () => ({ status: 200, text: "<html>" });
      assert.equal(await scene.ask("a"), "connection");
      a.reply = undefined;
      assert.equal(await scene.ask("a"), GOOD, "it is not held to be a forgery");
    });
  });
