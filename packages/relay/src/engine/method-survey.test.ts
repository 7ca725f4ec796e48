import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { virtualClock } from "@turnpike/testkit";
import type { AttemptResult, FailedAttempt, UpstreamAnswer } from "../answers/upstream-answer.ts";
import { MethodSurvey, type SurveyedSupplier } from "./method-survey.ts";

const service = createCatalogue({}).services.get("eth" as ServiceId);
assert.ok(service !== undefined);
const DECLARED = [...service.operations.values()].filter(({ filter }) => filter !== "create").map(({ name }) => name);
const AGAIN_MS = 1_000;

const bad = (reason: FailedAttempt["reason"], fallback?: UpstreamAnswer): AttemptResult => ({
  ok: false,
  blame: reason === "timeout" ? "wire" : "supplier",
  reason,
  ...(fallback === undefined ? {} : { fallback }),
});
const SAID = { ok: true, isError: true, body: Buffer.from("{}") } as unknown as UpstreamAnswer;
const STATED = bad("error", SAID);
const NO_METHOD = bad("unsupported", SAID);

interface Asked extends SurveyedSupplier {
  ask: SurveyedSupplier["ask"];
  readonly asked: string[];
  readonly lacking: string[];
  isHealthy: boolean;
  answer: (method: string) => AttemptResult;
}

function supplier(answer: (method: string) => AttemptResult, rpcType = "json_rpc"): Asked {
  assert.ok(service !== undefined);
  const made: Asked = {
    service,
    rpcType,
    isPaid: false,
    isHealthy: true,
    asked: [],
    lacking: [],
    answer,
    async ask({ method = "", params }: BackendCall) {
      assert.ok(!Array.isArray(params), "parameters by position could be those of a method");
      made.asked.push(method);
      return made.answer(method);
    },
    lacks: (operation) => made.lacking.push(operation),
  };
  return made;
}

const INTERVAL_MS = 60_000;

function survey(...suppliers: readonly Asked[]) {
  const clock = virtualClock();
  const ending = new AbortController();
  const opts = { intervalMs: INTERVAL_MS, againMs: AGAIN_MS, maxAtOnce: 2 };
  const made = new MethodSurvey(opts, { suppliers: () => suppliers, clock, signal: ending.signal });
  return { clock, made, run: () => made.run(), abort: () => ending.abort() };
}

/** A supplier whose first answer waits to be released. */
function held(): { readonly one: Asked; readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const one = supplier(() => bad("timeout"));
  const { ask } = one;
  one.ask = async (call, signal) => {
    const answer = await ask(call, signal);
    await promise;
    return answer;
  };
  return { one, release: resolve };
}

suite("which methods a supplier has", () => {
  test("a service without a family is not asked: an unknown method with unknown parameters may do anything", async () => {
    const one = { ...supplier(() => NO_METHOD), service: { ...service, families: [] } };
    await survey(one).run();
    assert.deepEqual(one.asked, []);
  });

  test("each declared method is asked for once, but what makes a filter; what is missing is asked for again", async () => {
    const one = supplier((method) => (method === "eth_capabilities" ? NO_METHOD : STATED));
    const { clock, run } = survey(one);
    await run();
    assert.deepEqual(one.asked, DECLARED);
    assert.deepEqual(one.lacking, ["eth_capabilities"]);
    await run();
    assert.equal(one.asked.length, DECLARED.length);
    clock.advance(AGAIN_MS);
    await run();
    assert.deepEqual(one.asked.slice(DECLARED.length), ["eth_capabilities"]);
    one.answer = () => STATED;
    clock.advance(AGAIN_MS);
    await run();
    clock.advance(AGAIN_MS);
    await run();
    assert.equal(one.asked.length, DECLARED.length + 2);
    assert.deepEqual(one.lacking, ["eth_capabilities", "eth_capabilities"]);
  });

  test("silence, limits and pages of a proxy say nothing, and end the round", async () => {
    for (const reason of ["timeout", "connection", "rate_limited", "refused", "http_status", "not_json"] as const) {
      const one = supplier(() => bad(reason));
      const { run } = survey(one);
      await run();
      await run();
      assert.deepEqual([one.asked.length, one.lacking], [2, []], reason);
    }
  });

  test("nothing is asked of one that is down, nor of paths; the others are asked meanwhile", async () => {
    const down = supplier(() => STATED);
    down.isHealthy = false;
    const rest = supplier(() => STATED, "rest");
    const up = supplier(() => STATED);
    await survey(down, rest, up).run();
    assert.deepEqual([down.asked.length, rest.asked.length, up.asked.length], [0, 0, DECLARED.length]);
  });

  test("once it is aborted, no more methods are asked for", async () => {
    const one = supplier(() => STATED);
    const { run, abort } = survey(one);
    one.answer = () => {
      abort();
      return STATED;
    };
    await run();
    assert.equal(one.asked.length, 1);
  });

  test("at most so many suppliers are asked at once", async () => {
    const three = [held(), held(), held()];
    const { run } = survey(...three.map(({ one }) => one));
    const running = run();
    const asked = (): readonly number[] => three.map(({ one }) => one.asked.length);
    assert.deepEqual(asked(), [1, 1, 0]);
    for (const { release } of three) release();
    await running;
    assert.deepEqual(asked(), [1, 1, 1]);
  });

  test("it runs at each interval, but for one run at a time, and disposal waits for the last", async (context) => {
    context.mock.timers.enable({ apis: ["setInterval"] });
    const { one, release } = held();
    const { made } = survey(one);
    made.start();
    context.mock.timers.tick(INTERVAL_MS);
    assert.equal(one.asked.length, 1, "the first run is not over");
    let isOver = false;
    const ending = made[Symbol.asyncDispose]().then(() => {
      isOver = true;
    });
    await new Promise(setImmediate);
    assert.equal(isOver, false);
    release();
    await ending;
    context.mock.timers.tick(INTERVAL_MS);
    assert.equal(one.asked.length, 1, "no run after disposal");

    const next = supplier(() => bad("timeout"));
    await using again = survey(next).made;
    again.start();
    await new Promise(setImmediate);
    context.mock.timers.tick(INTERVAL_MS);
    assert.equal(next.asked.length, 2);
  });
});
