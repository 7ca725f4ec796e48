import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { atHeight, emptyState } from "../../../test/modules/shared/modules.ts";
import type { ChainEvent } from "../../state/context.ts";
import { eventBytes } from "../../state/event-bytes.ts";
import { difficulties } from "../service/state.ts";
import { MAX_DIFFICULTIES_PER_BLOCK, MAX_DIFFICULTY_BYTES } from "./move-difficulties.ts";
import { dueDifficulties, relaysOfPart } from "./state.ts";
import { tokenomicsModule } from "./tokenomics-module.ts";

const MAX_RELAYS = 2n ** 64n - 1n;
const settlement = tokenomicsModule({ authority: moduleAddress("gov") });

/** Services whose settled relays wait for the last session of an end, with ids of the maximum length. */
const idAt = (i: number): string => `${i}`.padStart(42, "0");

function chain(count: number) {
  const state = emptyState();
  const { ctx } = state;
  for (let i = 0; i < count; i++) relaysOfPart.set(ctx, idAt(i), MAX_RELAYS);
  /** Ends a block without claims that are due; returns its events. */
  const endAt = (height: bigint): readonly ChainEvent[] => {
    const { ctx: at } = atHeight(state, height);
    settlement.endBlock?.(at);
    return at.events;
  };
  return { ctx, endAt };
}

suite("difficulties of many services that move at once", () => {
  test("attack: a block moves a maximum of them, the next ones the others, each once and in the order of the services", () => {
    const { ctx, endAt } = chain(2 * MAX_DIFFICULTIES_PER_BLOCK + 1);
    const blocks = [10n, 11n, 12n, 13n].map(endAt);
    assert.deepEqual(
      blocks.map(({ length }) => length),
      [MAX_DIFFICULTIES_PER_BLOCK, MAX_DIFFICULTIES_PER_BLOCK, 1, 0],
    );
    const ids = blocks.flat().map(({ attributes }) => attributes.find(({ key }) => key === "service_id")?.value);
    assert.deepEqual(
      ids,
      ids.map((_, i) => JSON.stringify(idAt(i))),
    );
    const longest = Math.max(...blocks.flat().map(eventBytes));
    assert.ok(longest * MAX_DIFFICULTIES_PER_BLOCK <= MAX_DIFFICULTY_BYTES, `${longest} bytes`);
    assert.deepEqual([[...relaysOfPart.entries(ctx)], [...dueDifficulties.entries(ctx)]], [[], []]);
  });

  test("those of a later settlement move after all of an earlier one, and a service's twice", () => {
    const { ctx, endAt } = chain(MAX_DIFFICULTIES_PER_BLOCK + 1);
    const last = idAt(MAX_DIFFICULTIES_PER_BLOCK);
    endAt(10n);
    assert.equal(difficulties.get(ctx, last), undefined);
    relaysOfPart.set(ctx, last, 1_000n);
    assert.equal(endAt(11n).length, 2);
    const once = chain(0);
    for (const relays of [MAX_RELAYS, 1_000n]) {
      relaysOfPart.set(once.ctx, last, relays);
      once.endAt(11n);
    }
    const { numRelaysEma, targetHash } = difficulties.get(ctx, last) ?? assert.fail();
    const expected = difficulties.get(once.ctx, last) ?? assert.fail();
    assert.deepEqual([numRelaysEma, targetHash], [expected.numRelaysEma, expected.targetHash]);
  });
});
