import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { UpstreamOutcome } from "../answers/upstream-answer.ts";
import { keyOf } from "../cache/call-key.ts";
import { Multiplexer } from "./multiplexer.ts";

function answer(length: number): UpstreamOutcome {
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":"${"a".repeat(length)}"}`);
  const facts = {
    ok: true,
    status: 200,
    contentType: "application/json",
    schemaCheck: "unchecked",
    isError: false,
  } as const;
  return { ...facts, body, operator: "one", idAt: { start: 22, end: 23 } };
}

const unused = (): Promise<UpstreamOutcome> => assert.fail("it is in flight");

/** How many of 20 askers have their copy, after each turn of the event loop. */
async function copiesByTurn(length: number): Promise<readonly number[]> {
  const multiplexer = new Multiplexer();
  const landing = Promise.withResolvers<UpstreamOutcome>();
  const first = multiplexer.join(
    keyOf("key"),
    "1",
    undefined,
    () => landing.promise,
    () => {},
  );
  let copies = 0;
  const asked = Array.from({ length: 20 }, async (_, at) => {
    const outcome = await multiplexer.join(keyOf("key"), `"id ${at}"`, undefined, unused, () => {});
    copies++;
    assert.ok(outcome.ok);
    const { id } = JSON.parse(Buffer.from(outcome.body).toString()) as { readonly id: string };
    assert.equal(id, `id ${at}`);
  });
  landing.resolve(answer(length));
  assert.deepEqual(await first, answer(length));
  const seen: number[] = [];
  while (copies < asked.length) {
    await nextTurn();
    seen.push(copies);
  }
  await Promise.all(asked);
  return seen;
}

suite("Multiplexer", () => {
  test("small answers are copied for all who wait at once", async () => {
    assert.deepEqual(await copiesByTurn(10), [20]);
  });

  test("large ones some megabytes at once: who writes a copy has counted it before the next are made", async () => {
    const MIB = 1_048_576;
    for (const [length, most] of [
      [100_000, 20],
      [3 * MIB, 2],
      [20 * MIB, 1],
    ] as const) {
      const seen = await copiesByTurn(length);
      const steps = seen.map((copies, at) => copies - (seen[at - 1] ?? 0));
      assert.equal(Math.max(...steps), most, seen.join());
    }
  });

  test("a read whose key has the same hash as another's is not joined to it", async () => {
    const multiplexer = new Multiplexer();
    const landing = Promise.withResolvers<UpstreamOutcome>();
    const join = (text: string, run: () => Promise<UpstreamOutcome>): Promise<UpstreamOutcome> =>
      multiplexer.join({ text, hash: 7 }, undefined, undefined, run, () => {});
    const first = join("a", () => landing.promise);
    const other = await join("b", () => Promise.resolve(answer(2)));
    assert.deepEqual(other, answer(2));
    landing.resolve(answer(1));
    assert.deepEqual(await first, answer(1));
  });
});
