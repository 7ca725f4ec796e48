import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { virtualClock } from "@turnpike/testkit";
import type { AttemptResult, FailedAttempt, UpstreamAnswer } from "../upstream-answer.ts";
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

function survey(...suppliers: readonly Asked[]) {
  const clock = virtualClock();
  const { signal } = new AbortController();
  const made = new MethodSurvey(
    { intervalMs: 60_000, againMs: AGAIN_MS, maxAtOnce: 2 },
    { suppliers: () => suppliers, clock, signal },
  );
  return { clock, run: () => made.run() };
}

suite("which methods a supplier has", () => {
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
});
