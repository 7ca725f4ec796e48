import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { suite, test } from "node:test";
import {
  decodeRelayRequest,
  encodeHttpRequestPayload,
  encodeRelayRequest,
  relayHash,
  splitRelay,
} from "@turnpike/protocol";
import { eventually, virtualClock } from "@turnpike/testkit";
import { chainParty, jsonRpcPayload } from "@turnpike/testkit/chain";
import {
  bodyOf,
  ethService,
  linesOf,
  rawRelay,
  servingRig,
  startBackEnd,
  startCounting,
  THREE_RELAYS,
  type Way,
} from "../../test/serving-rig.ts";
import { MAX_RELAY_BYTES } from "../evidence/session-evidence.ts";
import { MAX_REQUEST_BYTES } from "./relay-handler.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}';
const ANSWER = '{"jsonrpc":"2.0","id":1,"result":"0x2a"}';

const echo = () =>
  startBackEnd((request, response) => {
    void bodyOf(request).then((body) => {
      response.writeHead(200, {
        "content-type": "application/json",
        "x-seen": JSON.stringify({ url: request.url, headers: request.headers }),
      });
      response.end(body === CALL ? ANSWER : body);
    });
  });

for (const way of ["plain", "full"] as const satisfies Way[])
  suite(`relays over HTTP, the ${way} way in`, () => {
    test("a signed relay is forwarded, answered with the operator's signature, and recorded before it is answered", async () => {
      await using backEnd = await echo();
      await using rig = await servingRig(backEnd.url, { way });
      const answer = await rig.call(CALL);
      assert.deepEqual(answer, { status: 200, contentType: "application/json", body: ANSWER, isSigned: true });
      assert.equal(rig.store.relays.length, 1);
      assert.ok(splitRelay(rig.store.relays[0] ?? new Uint8Array()));
      assert.equal(rig.store.inFlight, 0);
      assert.deepEqual(
        [rig.counts.handled, rig.counts.handedOver],
        way === "plain" ? [1, 0] : [0, 1],
        "the way that it should take",
      );
    });

    test("every refusal has the network's status and text, and records nothing", async () => {
      await using backEnd = await echo();
      await using rig = await servingRig(backEnd.url, { way });
      const payload = jsonRpcPayload(CALL);
      const good = rig.sign(payload);
      const changed = Uint8Array.from(good);
      changed[changed.length - 3] = (changed[changed.length - 3] ?? 0) ^ 1;
      const header = rig.header;
      const cases: readonly (readonly [string, Uint8Array, number, RegExp])[] = [
        ["empty", new Uint8Array(), 400, /^invalid relay request: body must be a valid RelayRequest protobuf$/],
        ["junk", Buffer.from("not protobuf at all"), 400, /^invalid relay request/],
        ["a payload that is no HTTP request", rig.sign(Buffer.from([0xff, 0xff])), 400, /^invalid relay request/],
        ["no supplier", rig.sign(payload, { supplier: "" }), 400, /^missing supplier operator address/],
        [
          "absurd heights",
          rig.sign(payload, { header: { ...header, sessionEndBlockHeight: 0n } }),
          400,
          /^implausible session heights$/,
        ],
        ["a changed payload", changed, 403, /ring signature verification failed/],
        [
          "a non-member's signature",
          rig.sign(payload, { signer: "stranger" }),
          403,
          /ring signature verification failed/,
        ],
        [
          "another session id",
          rig.sign(payload, { header: { ...header, sessionId: "ab".repeat(32) } }),
          403,
          /session ID mismatch, expected: [0-9a-f]{64}, got: (ab){32}/,
        ],
        [
          "a session to come",
          rig.sign(payload, {
            header: { ...header, sessionId: "cd".repeat(32), sessionStartBlockHeight: 7n, sessionEndBlockHeight: 12n },
          }),
          403,
          /block height 7 is ahead of the last committed block height \d+/,
        ],
        [
          "an unknown application",
          rig.sign(payload, { header: { ...header, applicationAddress: chainParty("stranger").address } }),
          403,
          /application/,
        ],
        [
          "an unknown service",
          rig.sign(payload, { header: { ...header, serviceId: "foo" } }),
          404,
          /^unknown service: foo$/,
        ],
        [
          "another supplier",
          rig.sign(payload, { supplier: chainParty("other").address }),
          503,
          /^supplier pokt1\w+ not registered with any miner$/,
        ],
        ["too large", new Uint8Array(1_048_577), 413, /^request body too large$/],
      ];
      for (const [name, bytes, status, text] of cases) {
        const answer = await rig.send(bytes);
        assert.equal(answer.status, status, `${name}: ${answer.text}`);
        assert.match(String((JSON.parse(answer.text) as { error: string }).error), text, name);
        assert.equal(answer.contentType, "application/json", name);
      }
      assert.deepEqual(rig.store.relays, []);
      assert.equal(rig.store.inFlight, 0);
    });

    test("a request is good for one answer, however its signature is written; the same call signed anew is another", async () => {
      await using backEnd = await startCounting(ANSWER);
      await using rig = await servingRig(backEnd.url, { way });
      const bytes = rig.sign(jsonRpcPayload(CALL));
      const request = decodeRelayRequest(bytes) ?? assert.fail();
      const again = [
        bytes,
        encodeRelayRequest({ ...request, signature: Buffer.concat([request.signature, Buffer.from("more")]) }),
        // A field that the protocol does not know.
        Buffer.concat([bytes, Buffer.from([0x7a, 1, 0x2a])]),
      ];
      const first = await Promise.all(again.map((copy) => rig.send(copy)));
      assert.deepEqual(
        first.map(({ status }) => status).sort((a, b) => a - b),
        [200, 403, 403],
      );
      for (const copy of again) {
        const { status, text } = await rig.send(copy);
        assert.equal(status, 403);
        assert.match(text, /served before/);
      }
      assert.deepEqual([backEnd.asked(), rig.store.relays.length], [1, 1]);
      for (let i = 0; i < 3; i++) assert.equal((await rig.call(CALL)).body, ANSWER);
      assert.deepEqual([backEnd.asked(), rig.store.relays.length], [4, 4]);
      assert.equal(new Set(rig.store.relays.map((relay) => Buffer.from(relayHash(relay)).toString("hex"))).size, 4);
    });

    test("a session is served to the end of its grace, and not one block longer", async () => {
      await using backEnd = await echo();
      await using rig = await servingRig(backEnd.url, { way });
      const first = rig.header;
      await rig.chain.reach(7n);
      await rig.renew();
      assert.equal(first.sessionEndBlockHeight, 6n);
      assert.equal((await rig.send(rig.sign(jsonRpcPayload(CALL), { header: first }))).status, 200, "its grace");
      assert.equal((await rig.call(CALL)).status, 200, "and the next one");
      await rig.chain.reach(8n);
      await rig.renew();
      const late = await rig.send(rig.sign(jsonRpcPayload(CALL), { header: first }));
      assert.equal(late.status, 403);
      assert.match(late.text, /session expired, session end height: 6, current height: 8 \(grace period elapsed\)/);
    });

    test("work beyond the application's stake is refused before it is done", async () => {
      await using backEnd = await startCounting(ANSWER);
      await using rig = await servingRig(backEnd.url, { chain: THREE_RELAYS, way });
      const statuses: number[] = [];
      for (let i = 0; i < 4; i++) {
        const { status } = await rig.send(rig.sign(jsonRpcPayload(`{"id":${i}}`)));
        statuses.push(status);
      }
      assert.deepEqual(statuses, [200, 200, 200, 429]);
      assert.deepEqual([backEnd.asked(), rig.store.relays.length, rig.refused], [3, 3, ["over_limit"]]);
    });

    test("a relay that fails by a fault of the supplier holds nothing: no budget, no place, and it may be sent again", async () => {
      await using backEnd = await echo();
      await using rig = await servingRig(backEnd.url, { chain: THREE_RELAYS, way });
      const requests = Array.from({ length: 4 }, (_, i) => rig.sign(jsonRpcPayload(`{"id":${i}}`)));
      for (const fault of ["begin", "append"] as const) {
        rig.store.fault = fault;
        for (const request of requests) await assert.rejects(rig.send(request));
        assert.equal(rig.store.inFlight, 0, fault);
      }
      rig.store.fault = undefined;
      const statuses: number[] = [];
      for (const request of requests) statuses.push((await rig.send(request)).status);
      assert.deepEqual(statuses, [200, 200, 200, 429]);
      assert.equal(rig.store.inFlight, 0);
    });

    test("a back-end's 5xx is passed on unsigned, 4xx is an answer, silence and refusal are 502", async () => {
      await using backEnd = await startBackEnd((request, response) => {
        if (request.url === "/drop") return void request.socket.destroy();
        const status = Number(request.url?.slice(1));
        response.writeHead(status, { "content-type": "text/plain" });
        response.end("said");
      });
      await using rig = await servingRig(backEnd.url, { way });
      const get = (path: string) =>
        encodeHttpRequestPayload({ method: "GET", url: `http://x${path}`, headers: [], body: new Uint8Array() });
      const failed = await rig.send(rig.sign(get("/503")));
      assert.deepEqual([failed.status, failed.text], [503, '{"error":"backend service error"}']);
      const dropped = await rig.send(rig.sign(get("/drop")));
      assert.deepEqual([dropped.status, dropped.text], [502, '{"error":"backend error"}']);
      assert.deepEqual(rig.store.relays, []);
      assert.equal((await rig.send(rig.sign(get("/404")))).status, 200);
      assert.equal(rig.store.relays.length, 1);
      assert.equal(rig.store.inFlight, 0);
    });

    test("what cannot be recorded is not answered", async () => {
      await using backEnd = await echo();
      await using rig = await servingRig(backEnd.url, { way });
      rig.store.answer = "full";
      const failed = await rig.send(rig.sign(jsonRpcPayload(CALL)));
      assert.deepEqual(
        [failed.status, failed.text],
        [503, '{"error":"service temporarily unavailable","service":"eth"}'],
      );
      rig.store.answer = "sealed";
      assert.equal((await rig.send(rig.sign(jsonRpcPayload(CALL)))).status, 403);
      rig.store.answer = "too-large";
      const large = await rig.send(rig.sign(jsonRpcPayload(CALL)));
      assert.deepEqual([large.status, large.text], [413, '{"error":"request body too large"}']);
      assert.deepEqual(rig.refused, ["log_failed", "session_sealed", "too_large"]);
      rig.store.isSealed = true;
      assert.equal((await rig.send(rig.sign(jsonRpcPayload(CALL)))).status, 403);
    });

    test("a request that could never be claimed is refused before it is worked on, and counted", async () => {
      await using backEnd = await startCounting(ANSWER);
      await using rig = await servingRig(backEnd.url, { options: { maxRequestBytes: 10_485_760 }, way });
      const overhead = rig.sign(jsonRpcPayload("")).length + 16;
      const most = rig.sign(jsonRpcPayload("x".repeat(MAX_REQUEST_BYTES - overhead)));
      assert.ok(most.length > MAX_REQUEST_BYTES - 32 && most.length <= MAX_REQUEST_BYTES);
      assert.equal((await rig.send(most)).status, 200);
      const [mined] = rig.store.relays;
      assert.ok(mined !== undefined && mined.length <= MAX_RELAY_BYTES);
      const large = await rig.send(rig.sign(jsonRpcPayload("x".repeat(MAX_REQUEST_BYTES))));
      assert.deepEqual([large.status, large.text], [413, '{"error":"request body too large"}']);
      assert.deepEqual([backEnd.asked(), rig.refused], [1, ["too_large"]]);
    });

    test("a supplier that stops answers what it has begun, whole, and takes nothing more", async () => {
      const large = "x".repeat(1_000_000);
      const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      await using backEnd = await startBackEnd((_, response) => {
        arrive();
        void released.then(() => response.end(large));
      });
      const rig = await servingRig(backEnd.url, { way });
      await using _ = rig;
      const answering = rig.send(rig.sign(jsonRpcPayload(CALL)));
      await arrived;
      const stopping = rig[Symbol.asyncDispose]();
      await assert.rejects(rig.send(rig.sign(jsonRpcPayload(CALL))));
      release();
      const answer = await answering;
      assert.equal(answer.status, 200);
      assert.ok(answer.bytes.length > large.length);
      await stopping;
      assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [1, 0]);
    });

    test("clients that send bodies and never end them fill no memory: bodies are bounded together", async () => {
      await using backEnd = await echo();
      // Larger bodies are never plain. What is counted of a plain one may be twice what came of it.
      const [maxBodyBytes, saidBytes, sentBytes] =
        way === "plain" ? [150_000, 60_000, 59_000] : [1_600_000, 700_000, 690_000];
      await using rig = await servingRig(backEnd.url, { options: { maxBodyBytes }, way });
      const { port } = new URL(rig.url);
      const held: Socket[] = [];
      const answers: Promise<string>[] = [];
      for (let i = 0; i < 20; i++) {
        const socket = connect(Number(port), "127.0.0.1");
        held.push(socket);
        answers.push(
          new Promise((resolve) => {
            let text = "";
            socket.on("data", (part) => {
              text += String(part);
            });
            socket.on("error", () => {});
            socket.on("close", () => resolve(text));
          }),
        );
        socket.write(
          `POST / HTTP/1.1\r\nHost: x\r\n${linesOf(way)}Content-Length: ${saidBytes}\r\n\r\n${"x".repeat(sentBytes)}`,
        );
      }
      // At most two have room; of the others each is answered, and ended.
      let ended = 0;
      const closed = answers.map((answer) =>
        answer.then((text) => {
          ended++;
          return text;
        }),
      );
      await eventually("the end of those without room", () => ended >= 18);
      assert.ok(rig.refused.length >= 18 && rig.refused.every((reason) => reason === "overloaded"));
      for (const socket of held) socket.destroy();
      const texts = (await Promise.all(closed)).filter((text) => text !== "");
      assert.ok(texts.every((text) => text.startsWith("HTTP/1.1 503 ")));
      // What they held is free again.
      await eventually("room", async () => (await rig.send(rig.sign(jsonRpcPayload(CALL)))).status === 200);
    });

    test("a client that does not read its answer does not keep its place, be it whole or streamed", async () => {
      const large = Buffer.alloc(32_000_000, "x");
      const { promise: dropped, resolve: drop } = Promise.withResolvers<void>();
      let isStream = false;
      await using backEnd = await startBackEnd((_, response) => {
        if (isStream) response.setHeader("content-type", "text/event-stream").on("close", drop).write(large);
        else response.end(large);
      });
      const services = ethService(backEnd.url, { maxAnswerBytes: 64_000_000 });
      const options = { services, requestTimeoutMs: 100, maxConnections: 1 };
      await using rig = await servingRig(backEnd.url, { options, way });
      const ask = (): Socket => {
        const socket = connect(Number(new URL(rig.url).port), "127.0.0.1").on("error", () => {});
        socket.write(rawRelay(rig.sign(jsonRpcPayload(CALL)), way), "latin1");
        return socket;
      };
      const isRoom = async (): Promise<boolean> => {
        const answer = await rig.send(new Uint8Array(), { connection: "close" }).catch(() => undefined);
        return answer?.status === 400;
      };
      const whole = ask();
      await eventually("the answer", () => rig.store.relays.length === 1);
      await eventually("room after a whole answer", isRoom);
      isStream = true;
      const streamed = ask();
      await eventually("the stream", () => rig.store.relays.length === 2);
      await eventually("room after a stream", isRoom);
      await dropped;
      assert.equal(rig.store.inFlight, 0);
      for (const socket of [whole, streamed]) socket.destroy();
    });

    test("an application that sends faster than its rate is refused with the text that gateways know", async () => {
      await using backEnd = await echo();
      const services = ethService(backEnd.url, { relaysPerSecond: 2 });
      const clock = virtualClock();
      await using rig = await servingRig(backEnd.url, { options: { services }, clock, way });
      const statuses = async (count: number): Promise<number[]> => {
        const found: number[] = [];
        for (let i = 0; i < count; i++) found.push((await rig.send(rig.sign(jsonRpcPayload(CALL)))).status);
        return found;
      };
      // Forged ones use nothing of it.
      for (let i = 0; i < 5; i++) await rig.send(rig.sign(jsonRpcPayload(CALL), { signer: "stranger" }));
      assert.deepEqual(await statuses(3), [200, 200, 429]);
      const refused = await rig.send(rig.sign(jsonRpcPayload(CALL)));
      assert.equal(refused.text, '{"error":"offchain rate limit hit by relayer proxy"}');
      clock.advance(500);
      assert.deepEqual(await statuses(2), [200, 429]);
      assert.equal(rig.refused.at(-1), "rate_limited");
      assert.equal(rig.store.relays.length, 3);
    });
  });
