import assert from "node:assert/strict";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { suite, test } from "node:test";
import { hexToBytes, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { cosmosSign, cosmosVerify, decodeClosestProof, encodeClosestProof, SigningThreads } from "@turnpike/crypto";
import {
  decodeHttpResponsePayload,
  decodeRelayRequest,
  decodeRelayResponse,
  encodeHttpResponsePayload,
  encodeRelayRequest,
  encodeRelayResponse,
  type HttpResponsePayload,
  proofPath,
  relayBytes,
  relayHash,
  relayResponseDigest,
} from "@turnpike/protocol";
import {
  base64,
  type Exchange,
  headerOf,
  type Recording,
  readRecording,
  readSpec,
  recordedQueries,
  standingHead,
  supplierKeys,
} from "../../test/recorded.ts";
import { MemoryStore, startBackEnd } from "../../test/serving-rig.ts";
import { scratchFolder } from "../../test/sessions.ts";
import { RelayStore } from "../evidence/relay-store.ts";
import { termsOfQueries } from "../evidence/terms.ts";
import { serveRelays } from "../supplier.ts";
import { ThreadedRelayCrypto } from "./relay-crypto.ts";

/** Of one connection: a supplier does not pass them on. The recorded one did. */
const HOP_HEADERS = new Set(["Connection", "Keep-Alive"]);

/** As the recorded gateway sent them. */
const HEADERS = ["Host", "", "Transfer-Encoding", "chunked", "Content-Type", "application/json"];
const KEYS = supplierKeys();
const requestOf = ({ request }: Exchange) => decodeRelayRequest(base64(request.body)) ?? assert.fail();
const responseOf = ({ response }: Exchange) => decodeRelayResponse(base64(response.body)) ?? assert.fail();
const innerOf = (payload: Uint8Array) => decodeHttpResponsePayload(payload) ?? assert.fail();

/** A back-end that gives the recorded answer to the call that comes next. */
function startRecordedBackEnd(next: () => HttpResponsePayload) {
  return startBackEnd((request, response) => {
    request.resume().on("end", () => {
      const { statusCode, headers, body } = next();
      response.sendDate = false;
      const passed = headers.filter(([name]) => !HOP_HEADERS.has(name));
      response.writeHead(statusCode, Object.fromEntries(passed.map(([name, values]) => [name, [...values]])));
      response.end(body);
    });
  });
}

/** Relay servers of the recorded suppliers, with the chain as it was recorded. */
async function startRecordedSuppliers(recording: Pick<Recording, "sessions" | "params">, url: string, height: bigint) {
  await using stack = new AsyncDisposableStack();
  const store = new MemoryStore();
  const crypto = stack.use(new ThreadedRelayCrypto(stack.use(new SigningThreads({ threads: 0 })), KEYS));
  const served = stack.use(
    await serveRelays(
      {
        host: "127.0.0.1",
        operators: [...KEYS.keys()].map((address) => ({ address, port: 0 })),
        services: {
          anvil: {
            backEnds: { json_rpc: { url } },
            defaultRpcType: "json_rpc",
            timeoutMs: 30_000,
            maxAnswerBytes: 1_048_576,
            maxConcurrent: 100,
          },
        },
        maxRequestBytes: 1_048_576,
        maxConcurrentRelays: 100,
        maxConnections: 1_000,
        requestTimeoutMs: 30_000,
        drainTimeoutMs: 10_000,
        inflationMillionths: 50_000n,
        unsettledPercent: 10,
      },
      {
        queries: recordedQueries(recording),
        head: standingHead(height),
        crypto,
        store: store as unknown as RelayStore,
        clock: systemClock,
        metrics: noMetrics,
        log: silentLog,
      },
    ),
  );
  const owned = stack.move();
  return { store, ports: served.ports, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Sends a request with the headers that were recorded, byte for byte but for its host. */
async function replay(port: number, method: string, rawHeaders: readonly string[], body: Uint8Array) {
  const headers: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = "", value = ""] = rawHeaders.slice(at, at + 2);
    headers.push(name, name === "Host" ? `127.0.0.1:${port}` : value);
  }
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const sent = httpRequest({ port, host: "127.0.0.1", method, path: "/", headers }, resolve);
  sent.on("error", reject);
  sent.end(body);
  const response = await promise;
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  return { status: response.statusCode, headers: response.headers, bytes: Uint8Array.from(Buffer.concat(chunks)) };
}

suite("relays of the real gateway, as they were recorded", () => {
  for (const [name, count] of [
    ["e2e-1", 29],
    ["e2e-7", 81],
  ] as const) {
    test(`${name}: each of ${count} is accepted, and answered as the real supplier did`, async () => {
      const recording = readRecording(name);
      const { exchanges, sessions } = recording;
      assert.equal(exchanges.length, count);
      let next: HttpResponsePayload | undefined;
      await using backEnd = await startRecordedBackEnd(() => next ?? assert.fail());
      const [first = assert.fail()] = sessions;
      const { sessionEndBlockHeight } = headerOf(first);
      await using suppliers = await startRecordedSuppliers(recording, backEnd.url, sessionEndBlockHeight);
      for (const exchange of exchanges) {
        const bytes = base64(exchange.request.body);
        const recorded = responseOf(exchange);
        const inner = innerOf(recorded.payload);
        next = inner;
        const { supplierOperatorAddress: operator } = requestOf(exchange);
        const port = suppliers.ports.get(operator) ?? assert.fail();
        const { method, rawHeaders } = exchange.request;
        const answer = await replay(port, method, rawHeaders, bytes);
        assert.equal(answer.status, exchange.response.status, Buffer.from(answer.bytes).toString());
        const made = decodeRelayResponse(answer.bytes) ?? assert.fail();
        const expected = { ...inner, headers: inner.headers.filter(([header]) => !HOP_HEADERS.has(header)) };
        // The order of headers is that of their names: the protocol's messages are sorted.
        assert.deepEqual(Buffer.from(made.payload), Buffer.from(encodeHttpResponsePayload(expected)));
        assert.deepEqual(made.header, recorded.header);
        assert.deepEqual(Buffer.from(made.payloadHash), Buffer.from(relayHash(made.payload)));
        // With the recorded payload it would be the recorded bytes: same digest, same signature.
        const key = KEYS.get(operator) ?? assert.fail();
        const same = { ...made, payload: recorded.payload, payloadHash: relayHash(recorded.payload) };
        const signature = cosmosSign(relayResponseDigest(same), key);
        assert.deepEqual(
          Buffer.from(encodeRelayResponse({ ...same, signature })).toString("base64"),
          exchange.response.body,
        );
        const supplierKey = readSpec<Record<string, string>>("protocol/public-keys.json")[operator] ?? assert.fail();
        assert.ok(cosmosVerify(relayResponseDigest(made), made.signature, base64(supplierKey)));
      }
      assert.deepEqual([suppliers.store.relays.length, suppliers.store.inFlight], [count, 0]);
    });

    test(`${name}: from its relays the evidence makes the claims and proofs that the real supplier sent`, async () => {
      const recording = readRecording(name);
      await using scratch = await scratchFolder();
      const options = {
        folder: scratch.folder,
        operators: [...KEYS.keys()],
        fsyncMs: 200,
        leastFreeBytes: 0,
        isMachineWideLock: false,
      };
      const modules = { clock: systemClock, termsOf: termsOfQueries(recordedQueries(recording)) };
      await using store = await RelayStore.open(options, modules);
      for (const exchange of recording.exchanges) {
        const { header = assert.fail(), supplierOperatorAddress: operatorAddress } = requestOf(exchange);
        const relay = relayBytes(base64(exchange.request.body), base64(exchange.response.body)) ?? assert.fail();
        assert.equal(await store.append({ operatorAddress, header, relay }), "mined");
      }
      let proofs = 0;
      for (const claim of recording.claims) {
        const { session_id: id } = claim.session_header;
        const operator = claim.supplier_operator_address;
        const session = store.session(operator, id) ?? assert.fail();
        const sealed = await session.seal();
        assert.equal(Buffer.from(sealed.rootHash).toString("base64"), claim.root_hash);
        const proof = recording.proofs.get(`${id} ${operator}`);
        if (proof === undefined) continue;
        const { proofOpenHeight } = session.head.terms.windows;
        const seed = recording.blockHashes[`${proofOpenHeight - 1n}`] ?? assert.fail();
        const made = await session.proof(proofPath(hexToBytes(seed.toLowerCase()) ?? assert.fail(), id));
        // The bytes name their types by numbers, which each process of the real one counts by itself.
        const again = encodeClosestProof(decodeClosestProof(proof) ?? assert.fail());
        assert.deepEqual(Buffer.from(made ?? assert.fail()), Buffer.from(again));
        proofs++;
      }
      assert.equal(proofs, recording.claims.length);
    });
  }

  test("the recorded bad relays are refused, with the texts of the network, and nothing of them is mined", async () => {
    interface Bad {
      readonly name: string;
      readonly request: { readonly method: string; readonly body: string };
    }
    const recorded = readSpec<Bad[]>("recorded-chain/relay/errors-wire.json");
    const bad = (name: string) => base64(recorded.find((one) => one.name === name)?.request.body ?? assert.fail(name));
    // Not recorded is the session itself: that of the other recording of this application, under this one's id and heights.
    const { sessions, params } = readRecording("e2e-7");
    const { header = assert.fail() } = decodeRelayRequest(bad("accepted")) ?? assert.fail();
    const [of = assert.fail()] = sessions.filter((one) => one.header?.applicationAddress === header.applicationAddress);
    const session = { ...of, header: { ...(of.header ?? assert.fail()), ...header }, sessionId: header.sessionId };
    let asked = 0;
    await using backEnd = await startBackEnd((_, response) => {
      asked++;
      response.end("{}");
    });
    const at = header.sessionStartBlockHeight + 3n;
    await using suppliers = await startRecordedSuppliers({ sessions: [session], params }, backEnd.url, at);
    const { supplierOperatorAddress: operator } = decodeRelayRequest(bad("accepted")) ?? assert.fail();
    const port = suppliers.ports.get(operator) ?? assert.fail();
    const send = (bytes: Uint8Array) => replay(port, "POST", HEADERS, bytes);
    assert.equal((await send(bad("accepted"))).status, 200);
    const cases = [
      // The real one answers the same bytes again, unpaid. Here no second piece of work is done for them.
      ["accepted", 403, /served before/],
      ["junk", 400, /^invalid relay request: body must be a valid RelayRequest protobuf$/],
      ["empty", 400, /^invalid relay request: body must be a valid RelayRequest protobuf$/],
      ["signature with a changed byte", 403, /^relay validation failed: ring signature verification failed: /],
      ["payload with a changed byte", 403, /^relay validation failed: ring signature verification failed: /],
      ["other supplier", 403, /^relay validation failed: /],
      ["expired session", 403, /^relay validation failed: session expired, session end height: \d+, current height: /],
    ] as const;
    for (const [name, status, text] of cases) {
      const answer = await send(bad(name));
      const body = Buffer.from(answer.bytes).toString();
      assert.equal(answer.status, status, `${name}: ${body}`);
      assert.match((JSON.parse(body) as { error: string }).error, text, name);
      assert.equal(answer.headers["content-type"], "application/json");
    }
    assert.deepEqual([asked, suppliers.store.relays.length], [1, 1]);
    assert.deepEqual(
      Buffer.from(encodeRelayRequest(decodeRelayRequest(bad("accepted")) ?? assert.fail())),
      Buffer.from(bad("accepted")),
    );
  });
});
