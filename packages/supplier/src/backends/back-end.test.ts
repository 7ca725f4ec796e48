import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { suite, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Clock, type Log, type Metrics, noMetrics, silentLog, systemClock } from "@turnpike/base";
import type { HttpRequestPayload } from "@turnpike/protocol";
import { eventually, virtualClock } from "@turnpike/testkit";
import { startBackEnd } from "../../test/serving-rig.ts";
import { HttpBackEnd, type HttpBackEndOptions } from "./back-end.ts";

const PARTIES = { operatorAddress: "pokt1operator", serviceId: "eth", applicationAddress: "pokt1app" };
const CALL = { method: "POST", url: "/", headers: [], body: Buffer.from("{}") };

function open(
  url: string,
  clock: Clock,
  options: Partial<HttpBackEndOptions> = {},
  parts: { readonly log?: Log; readonly metrics?: Metrics } = {},
): HttpBackEnd {
  return new HttpBackEnd(
    {
      serviceId: "eth",
      rpcType: "json_rpc",
      url,
      headers: { "X-Api-Key": "secret" },
      timeoutMs: 30_000,
      maxAnswerBytes: 1_000,
      ...options,
    },
    { clock, ...parts },
  );
}

const ask = async (backEnd: HttpBackEnd): Promise<string> =>
  (await backEnd.ask(CALL, PARTIES, new AbortController().signal)).kind;

suite("a back-end of a supplier", () => {
  test("that fails five times in a row is left alone for half a minute", async () => {
    let asked = 0;
    let isDown = true;
    await using node = await startBackEnd((_, response) => {
      asked++;
      if (isDown) response.destroy();
      else response.end("{}");
    });
    const clock = virtualClock();
    await using backEnd = open(node.url, clock);
    for (let i = 0; i < 5; i++) assert.equal(await ask(backEnd), "unreachable");
    assert.equal(asked, 5);
    for (let i = 0; i < 5; i++) assert.equal(await ask(backEnd), "down");
    assert.equal(asked, 5);
    clock.advance(30_000);
    assert.equal(await ask(backEnd), "unreachable");
    assert.equal(await ask(backEnd), "down");
    clock.advance(30_000);
    isDown = false;
    assert.equal(await ask(backEnd), "answer");
    isDown = true;
    assert.equal(await ask(backEnd), "unreachable");
    assert.equal(backEnd.isPaused, false);
  });

  test("that fails calls which are under way together is paused once, and logged once", async () => {
    const responses: ServerResponse[] = [];
    const { promise: allArrived, resolve } = Promise.withResolvers<void>();
    await using node = await startBackEnd((_, response) => {
      if (responses.push(response) === 20) resolve();
    });
    const lines: string[] = [];
    const clock = virtualClock();
    const log: Log = { ...silentLog, error: (_, message) => void lines.push(message ?? "") };
    await using backEnd = open(node.url, clock, {}, { log });
    const calls = Promise.all(Array.from({ length: 20 }, () => ask(backEnd)));
    await allArrived;
    for (const response of responses) response.destroy();
    assert.deepEqual(new Set(await calls), new Set(["unreachable"]));
    assert.equal(backEnd.isPaused, true);
    assert.equal(lines.length, 1);
  });

  test("shows as down while it is paused, though a call that was under way is answered then", async () => {
    const responses: ServerResponse[] = [];
    const { promise: allArrived, resolve } = Promise.withResolvers<void>();
    await using node = await startBackEnd((_, response) => {
      if (responses.push(response) === 6) resolve();
      if (responses.length > 6) response.end("{}");
    });
    const shown: number[] = [];
    const clock = virtualClock();
    const metrics: Metrics = { ...noMetrics, set: (_, value) => void shown.push(value) };
    await using backEnd = open(node.url, clock, {}, { metrics });
    const calls = Array.from({ length: 6 }, () => ask(backEnd));
    await allArrived;
    const [slow, ...bad] = responses;
    for (const response of bad) response.destroy();
    await eventually("the pause", () => backEnd.isPaused);
    slow?.end("{}");
    assert.equal((await Promise.all(calls)).filter((kind) => kind === "answer").length, 1);
    assert.deepEqual([backEnd.isPaused, shown.at(-1)], [true, 0]);
    clock.advance(30_000);
    assert.equal(await ask(backEnd), "answer");
    assert.equal(shown.at(-1), 1);
  });

  test("that closes a kept connection as the next call comes is asked over a new one, and has not failed", async () => {
    const sockets: (Socket | null)[] = [];
    await using node = await startBackEnd((_, response) => {
      sockets.push(response.socket);
      response.end("{}");
    });
    await using backEnd = open(node.url, virtualClock());
    for (let i = 0; i < 7; i++) {
      await nextTurn();
      sockets.at(-1)?.destroy();
      assert.equal(await ask(backEnd), "answer");
    }
    assert.deepEqual([backEnd.isPaused, new Set(sockets).size], [false, 7]);
  });

  test("is not paused by requests that no client of HTTP sends: they are refused, and never reach it", async () => {
    let asked = 0;
    await using node = await startBackEnd((_, response) => {
      asked++;
      response.end("{}");
    });
    await using backEnd = open(node.url, virtualClock());
    const send = async (more: Partial<HttpRequestPayload>): Promise<string> =>
      (await backEnd.ask({ ...CALL, ...more }, PARTIES, new AbortController().signal)).kind;
    for (const method of ["GE T", "CONNECT", "", "GET\r\nX-A: b", "G\u00c9T"]) {
      for (let i = 0; i < 6; i++) assert.equal(await send({ method }), "bad-request", method);
    }
    assert.deepEqual([backEnd.isPaused, asked], [false, 0]);
    // A name that is no own property of an object unless it is written as one.
    for (let i = 0; i < 6; i++) assert.equal(await send({ headers: [["__proto__", ["a", "b"]]] }), "answer");
    assert.deepEqual([backEnd.isPaused, await ask(backEnd), asked], [false, "answer", 7]);
  });

  test("gets a GET with a body on a connection of its own: it may leave the body unread, and take it for a request", async () => {
    const sockets = new Set<unknown>();
    await using node = await startBackEnd((request, response) => {
      sockets.add(request.socket);
      response.end("{}");
    });
    await using backEnd = open(node.url, virtualClock());
    const body = Buffer.from("GET /other HTTP/1.1\r\nHost: x\r\n\r\n");
    const send = (more: Partial<HttpRequestPayload>): ReturnType<HttpBackEnd["ask"]> =>
      backEnd.ask({ ...CALL, ...more }, PARTIES, new AbortController().signal);
    for (let i = 0; i < 3; i++) assert.equal((await send({ method: "GET", body })).kind, "answer");
    assert.equal(sockets.size, 3);
    for (let i = 0; i < 3; i++) assert.equal((await send({ method: "GET", body: new Uint8Array() })).kind, "answer");
    assert.equal(sockets.size, 4);
  });

  test("with a health path is not asked while that says no, and is asked again as soon as it says yes", async () => {
    const health: number[] = [];
    let status = 503;
    let asked = 0;
    const answer = (response: ServerResponse, code: number): void => {
      health.push(code);
      response.writeHead(code).end();
    };
    await using node = await startBackEnd((request, response) => {
      assert.equal(request.headers["x-api-key"], "secret");
      if (request.url === "/health") return answer(response, status);
      asked++;
      response.end("{}");
    });
    const clock = virtualClock();
    await using backEnd = open(node.url, clock, { healthPath: "/health", healthIntervalMs: 1 });
    await eventually("two bad looks", () => backEnd.isPaused);
    assert.deepEqual(health.slice(0, 2), [503, 503]);
    assert.equal(await ask(backEnd), "down");
    status = 204;
    await eventually("a good look", () => !backEnd.isPaused);
    assert.equal(await ask(backEnd), "answer");
    assert.equal(asked, 1);
  });

  test("one good look ends the pause that calls began", async () => {
    let isDown = true;
    await using node = await startBackEnd((request, response) => {
      if (isDown || request.url === undefined) response.destroy();
      else response.end("{}");
    });
    const clock = virtualClock();
    await using backEnd = open(node.url, clock, { healthPath: "/", healthIntervalMs: 1 });
    await eventually("the pause", () => backEnd.isPaused);
    isDown = false;
    // The clock stands: without the look the pause would not end.
    await eventually("the end of the pause", () => !backEnd.isPaused);
    assert.equal(await ask(backEnd), "answer");
  });

  // A POST goes over the pool, a PUT over undici: what comes of them is the same.
  for (const method of ["POST", "PUT"]) {
    const call = { ...CALL, method };

    test(`${method}: an answer has all headers of the back-end but those of its connection`, async () => {
      await using node = await startBackEnd((_, response) => {
        response.writeHead(404, [
          "Set-Cookie",
          "a=1",
          "x-of-node",
          " padded",
          "Set-Cookie",
          "b=2",
          "__proto__",
          "p",
          "X-Empty",
          "",
          "X-Latin",
          "caf\u00e9",
        ]);
        response.write("one ");
        response.end("two");
      });
      await using backEnd = open(node.url, systemClock);
      const result = await backEnd.ask(call, PARTIES, new AbortController().signal);
      assert.ok(result.kind === "answer");
      const headers = result.answer.headers.filter(([name]) => name !== "Date");
      assert.deepEqual(
        [...headers].sort(([a], [b]) => (a < b ? -1 : 1)),
        [
          ["Set-Cookie", ["a=1", "b=2"]],
          ["X-Empty", [""]],
          ["X-Latin", ["caf\u00e9"]],
          ["X-Of-Node", ["padded"]],
          ["__proto__", ["p"]],
        ],
      );
      assert.deepEqual([result.answer.statusCode, Buffer.from(result.answer.body).toString()], [404, "one two"]);
    });

    test(`${method}: too large an answer, one that is late, one that breaks off and one that is given up`, async () => {
      const { promise: dropped, resolve: drop } = Promise.withResolvers<void>();
      let kind: "said" | "seen" | "late" | "broken" | "given up" = "said";
      const { promise: asked, resolve: arrive } = Promise.withResolvers<void>();
      await using node = await startBackEnd((_, response) => {
        if (kind === "said") response.end("x".repeat(1_001));
        else if (kind === "seen") response.write("x".repeat(1_001));
        else if (kind === "broken")
          response.writeHead(200, { "Content-Length": "10" }).write("x", () => response.destroy());
        else if (kind === "given up") {
          response.on("close", drop);
          arrive();
        }
      });
      await using backEnd = open(node.url, systemClock, { timeoutMs: 60_000 });
      await using impatient = open(node.url, systemClock, { timeoutMs: 50 });
      const signal = new AbortController().signal;
      for (kind of ["said", "seen"] as const)
        assert.equal((await backEnd.ask(call, PARTIES, signal)).kind, "too-large");
      kind = "late";
      for (let i = 0; i < 5; i++) assert.equal((await impatient.ask(call, PARTIES, signal)).kind, "timeout");
      assert.equal(impatient.isPaused, true, "time-outs are faults");
      kind = "broken";
      assert.equal((await backEnd.ask(call, PARTIES, signal)).kind, "unreachable");
      kind = "given up";
      const leaving = new AbortController();
      const given = backEnd.ask(call, PARTIES, leaving.signal);
      await asked;
      leaving.abort();
      assert.equal((await given).kind, "timeout");
      await dropped;
      for (let i = 0; i < 5; i++) assert.equal((await backEnd.ask(call, PARTIES, leaving.signal)).kind, "timeout");
      assert.equal(backEnd.isPaused, false, "a client that leaves is no fault");
    });
  }
});
