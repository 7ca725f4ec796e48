import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { suite, test } from "node:test";
import { decodeHttpResponsePayload, relayHash, splitRelay } from "@turnpike/protocol";
import { eventually, refusedUpgrade } from "@turnpike/testkit";
import { chainParty, jsonRpcPayload } from "@turnpike/testkit/chain";
import { type ServingRig, servingRig } from "../../test/serving-rig.ts";
import { openRelaySocket, type SocketBackEnd, startSocketBackEnd } from "../../test/sockets.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}';
const NO_HTTP = "http://127.0.0.1:9";

const echo = (): Promise<SocketBackEnd> =>
  startSocketBackEnd((socket, { bytes, isBinary }) => socket.send(bytes, { binary: isBinary }));

const rigOver = (
  backEnd: SocketBackEnd,
  options: NonNullable<Parameters<typeof servingRig>[1]>["options"] = {},
): Promise<ServingRig> => servingRig(NO_HTTP, { wsUrl: backEnd.url, options });

/** Makes a block, and waits until the supplier has seen it. */
async function block(rig: ServingRig): Promise<void> {
  await rig.chain.produce();
  await rig.renew();
}

suite("relays over WebSocket", () => {
  test("a connection that is reset as its upgrade is refused ends nothing but itself", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd);
    for (const service of ["unknown", "eth"]) {
      const client = connect(Number(new URL(rig.url).port), "127.0.0.1");
      client.write(
        `GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTarget-Service-Id: ${service}\r\n\r\n`,
      );
      await once(client, "data");
      client.resetAndDestroy();
      await once(client, "close");
    }
    // An error without a listener would end the process, and fails the test.
    await using next = await openRelaySocket(rig.url);
    next.send(rig.sign(Buffer.from(CALL)), false);
    assert.deepEqual(
      (await next.until(1)).map(({ payload }) => payload),
      [CALL],
    );
  });

  test("text and binary frames keep their kind in both directions; each answer is signed and one relay", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd);
    await using client = await openRelaySocket(rig.url);
    for (const [at, isBinary] of [false, true].entries()) {
      const request = rig.sign(Buffer.from(CALL));
      client.send(request, isBinary);
      const answer = (await client.until(at + 1))[at] ?? assert.fail();
      assert.deepEqual([answer.isBinary, answer.payload, answer.isSigned], [isBinary, CALL, true]);
      assert.deepEqual(answer.response.header, rig.header);
      assert.deepEqual(answer.response.payloadHash, relayHash(Buffer.from(CALL)));
      assert.equal(answer.response.error, undefined);
      // The back-end sees the client's frame and nothing around it.
      assert.deepEqual(backEnd.frames[at], { bytes: Buffer.from(CALL), isBinary });
      assert.deepEqual(splitRelay(rig.store.relays[at] ?? new Uint8Array())?.request, request);
    }
    assert.equal(rig.store.relays.length, 2);
    assert.equal(rig.store.inFlight, 0);
    const [handshake] = backEnd.handshakes;
    assert.equal(handshake?.headers["sec-websocket-extensions"], undefined);
    assert.equal(handshake?.headers["sec-websocket-protocol"], undefined);
  });

  test("every frame of the back-end is a relay of its own, answers and pushes alike, in its order", async () => {
    await using backEnd = await startSocketBackEnd((socket) => {
      for (let push = 0; push < 7; push++) socket.send(`push ${push}`);
    });
    await using rig = await rigOver(backEnd);
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from(CALL)), false);
    const frames = await client.until(7);
    assert.deepEqual(
      frames.map(({ payload, isSigned }) => [payload, isSigned]),
      Array.from({ length: 7 }, (_, push) => [`push ${push}`, true]),
    );
    const hashes = rig.store.relays.map((relay) => Buffer.from(relayHash(relay)).toString("hex"));
    assert.equal(new Set(hashes).size, 7);
  });

  test("what a back-end says before it is asked is no relay, and is not sent on", async () => {
    await using backEnd = await startSocketBackEnd((socket, { bytes }) => socket.send(bytes));
    await using rig = await rigOver(backEnd);
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from("one")), false);
    await client.until(1);
    assert.deepEqual([client.frames.map(({ payload }) => payload), rig.store.relays.length], [["one"], 1]);
  });

  test("at the session's end there is a last signed 410, close 4000, and the back-end's connection goes: no grace", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd);
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from(CALL)), false);
    await client.until(1);
    while (rig.chain.heightBlocks < rig.header.sessionEndBlockHeight) await block(rig);
    client.send(rig.sign(Buffer.from("in the last block")), false);
    await client.until(2);
    const { header } = rig;
    await block(rig);
    assert.equal(await client.closed, "4000 session expired");
    const last = client.frames[2] ?? assert.fail();
    assert.deepEqual([last.isBinary, last.isSigned], [true, true]);
    const envelope = decodeHttpResponsePayload(last.response.payload) ?? assert.fail();
    assert.deepEqual(
      [envelope.statusCode, Buffer.from(envelope.body).toString(), last.response.error?.code],
      [410, '{"error":"session expired"}', 410],
    );
    assert.equal(last.response.error?.description, "session expired");
    assert.equal(rig.store.relays.length, 2);
    await eventually("the back-end's end", () => backEnd.closed.length > 0);
    assert.deepEqual(backEnd.closed, ["1001 session ended"]);
    // A connection that comes in the session's grace ends as soon as it names its session.
    await using late = await openRelaySocket(rig.url);
    late.send(rig.sign(Buffer.from(CALL), { header }), false);
    assert.equal(await late.closed, "4000 session expired");
    assert.equal(rig.store.relays.length, 2);
  });

  test("a back-end that closes, or cannot be reached, closes the client; what it sent before arrives first", async () => {
    await using backEnd = await startSocketBackEnd((socket) => {
      socket.send("one");
      socket.send("two");
      socket.close(1000, "done");
    });
    await using rig = await rigOver(backEnd);
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from(CALL)), false);
    assert.equal(await client.closed, "1011 backend closed");
    assert.deepEqual(
      client.frames.map(({ payload }) => payload),
      ["one", "two"],
    );
    await backEnd[Symbol.asyncDispose]();
    await using other = await openRelaySocket(rig.url);
    other.send(rig.sign(Buffer.from(CALL)), false);
    assert.equal(await other.closed, "1011 backend closed");
    assert.equal(rig.store.relays.length, 2);
    assert.equal(rig.store.inFlight, 0);
  });

  test("a client that closes ends the back-end's connection", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd);
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from(CALL)), false);
    await client.until(1);
    client.socket.close(1000);
    await eventually("the back-end's end", () => backEnd.closed.length > 0);
    assert.deepEqual(backEnd.closed, ["1001 session ended"]);
  });

  test("a forged, replayed, foreign or too large request closes the connection before the back-end sees it", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd);
    const good = rig.sign(Buffer.from(CALL));
    const changed = Uint8Array.from(good);
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    const cases: readonly (readonly [string, Uint8Array, RegExp, string])[] = [
      ["junk", Buffer.from("junk"), /^4001 /, "malformed"],
      ["a changed payload", changed, /^4001 .*ring signature verification failed/, "bad_signature"],
      ["a stranger", rig.sign(Buffer.from(CALL), { signer: "stranger" }), /^4001 .*ring signature/, "bad_signature"],
      [
        "another session",
        rig.sign(Buffer.from(CALL), { header: { ...rig.header, sessionId: "ab".repeat(32) } }),
        /^4001 .*session ID mismatch/,
        "session_mismatch",
      ],
      [
        "another supplier",
        rig.sign(Buffer.from(CALL), { supplier: chainParty("other").address }),
        /^4001 supplier pokt1\w+ not registered/,
        "unknown_supplier",
      ],
      [
        "another service",
        rig.sign(Buffer.from(CALL), { header: { ...rig.header, serviceId: "other" } }),
        /^4001 /,
        "malformed",
      ],
      ["too large", new Uint8Array(1_000_000), /^1009 /, "too_large"],
    ];
    for (const [name, bytes, expected, reason] of cases) {
      await using client = await openRelaySocket(rig.url);
      client.send(bytes, true);
      assert.match(await client.closed, expected, name);
      assert.equal(rig.refused.at(-1), reason, name);
    }
    assert.equal(backEnd.handshakes.length, 0);
    await using client = await openRelaySocket(rig.url);
    client.send(good, true);
    await client.until(1);
    client.send(good, true);
    assert.match(await client.closed, /^4001 .*served before/);
    assert.deepEqual([backEnd.frames.length, rig.store.relays.length, rig.refused.at(-1)], [1, 1, "replayed"]);
  });

  test("what the application cannot pay closes 4002, and what cannot be recorded is never sent", async () => {
    await using backEnd = await startSocketBackEnd((socket) => {
      for (let push = 0; push < 10; push++) socket.send(`push ${push}`);
    });
    await using rig = await servingRig(NO_HTTP, {
      wsUrl: backEnd.url,
      chain: {
        applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: 100_000_000n } },
        shared: { computeUnitsToTokensMultiplier: 100_000_000_000n },
      },
    });
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from(CALL)), false);
    await assert.rejects(client.until(4), /closed: 4002 stake limit reached/);
    assert.deepEqual([client.frames.length, rig.store.relays.length], [3, 3]);
    assert.equal(rig.refused.at(-1), "over_limit");
    await using second = await openRelaySocket(rig.url);
    second.send(rig.sign(Buffer.from(CALL)), false);
    assert.equal(await second.closed, "4002 stake limit reached");
  });

  test("an answer that could not be recorded closes the connection unsent, each reason counted", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd);
    const cases = [
      ["full", "1011 service temporarily unavailable", "log_failed"],
      ["too-large", "1009 request body too large", "too_large"],
      ["sealed", "4000 session expired", "session_sealed"],
    ] as const;
    for (const [answer, closed, reason] of cases) {
      rig.store.answer = answer;
      await using client = await openRelaySocket(rig.url);
      client.send(rig.sign(Buffer.from(CALL)), false);
      assert.equal(await client.closed, closed);
      assert.equal(rig.refused.at(-1), reason);
      // The last word of an expired session is no answer.
      assert.deepEqual(
        client.frames.map(({ response }) => response.error?.code),
        answer === "sealed" ? [410] : [],
      );
    }
    assert.deepEqual([rig.store.relays.length, rig.store.inFlight], [0, 0]);
  });

  test("an answer that meets a fault of the store uses nothing of the budget", async () => {
    await using backEnd = await echo();
    await using rig = await servingRig(NO_HTTP, {
      wsUrl: backEnd.url,
      chain: {
        applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: 100_000_000n } },
        shared: { computeUnitsToTokensMultiplier: 100_000_000_000n },
      },
    });
    for (const fault of ["begin", "append"] as const) {
      await using client = await openRelaySocket(rig.url);
      client.send(rig.sign(Buffer.from(CALL)), false);
      await client.until(1);
      rig.store.fault = fault;
      backEnd.socket.send("push");
      assert.equal(await client.closed, "1011 internal error");
      rig.store.fault = undefined;
    }
    await using last = await openRelaySocket(rig.url);
    last.send(rig.sign(Buffer.from(CALL)), false);
    await last.until(1);
    assert.equal(rig.store.inFlight, 0);
    assert.equal(rig.store.relays.length, 3);
  });

  test("a client that does not read stops its back-end, and is gone at the session's end", async () => {
    const parts = 512;
    let sent = 0;
    await using backEnd = await startSocketBackEnd((socket) => {
      const sendNext = (): void => {
        if (sent === parts) return;
        const frame = Buffer.alloc(262_144, "x");
        frame.writeUInt32BE(sent);
        socket.send(frame, (error) => {
          sent++;
          if (error === undefined || error === null) sendNext();
        });
      };
      sendNext();
    });
    await using rig = await rigOver(backEnd, { maxWaitingBytes: 1_048_576 });
    await using client = await openRelaySocket(rig.url);
    client.socket.pause();
    client.send(rig.sign(Buffer.from(CALL)), false);
    let last = -1;
    let looks = 0;
    await eventually("the stop", () => {
      looks = sent === last ? looks + 1 : 0;
      last = sent;
      return sent > 0 && looks >= 20;
    });
    assert.ok(sent < parts / 2, `${sent} of ${parts} frames were read for a client that reads none`);
    assert.ok(rig.store.relays.length <= sent);
    const { sessionEndBlockHeight } = rig.header;
    while (rig.chain.heightBlocks <= sessionEndBlockHeight) await block(rig);
    await eventually("the back-end's end", () => backEnd.closed.length > 0);
    client.socket.resume();
    assert.match(await client.closed, /^(4000|1006)/);
  });

  test("connections without a signed request do not keep others out", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd, { maxSockets: 2 });
    await using proven = await openRelaySocket(rig.url);
    proven.send(rig.sign(Buffer.from("proven")), false);
    await proven.until(1);
    await using idle = await openRelaySocket(rig.url);
    await using next = await openRelaySocket(rig.url);
    assert.equal(await idle.closed, "1013 too many connections");
    next.send(rig.sign(Buffer.from("next")), false);
    await next.until(1);
    const refused = await refusedUpgrade(rig.url.replace(/^http/, "ws"), { "Target-Service-Id": "eth" });
    assert.equal(refused.status, 503);
    proven.send(rig.sign(Buffer.from("still here")), false);
    await proven.until(2);
    assert.equal((await refusedUpgrade(rig.url.replace(/^http/, "ws"), { "Target-Service-Id": "other" })).status, 404);
    assert.equal(backEnd.handshakes.length, 2);
  });

  test("HTTP relays go on beside WebSockets on the same port", async () => {
    await using backEnd = await echo();
    await using rig = await rigOver(backEnd);
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from(CALL)), false);
    await client.until(1);
    const answer = await rig.send(rig.sign(jsonRpcPayload(CALL)));
    assert.equal(answer.status, 502);
  });
});
