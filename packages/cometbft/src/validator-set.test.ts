import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "@turnpike/crypto";
import { must } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { assertSame, readCometVectors } from "../test/recorded.ts";
import type { Validator, ValidatorSet } from "./types.ts";
import {
  createValidatorSet,
  MAX_TOTAL_POWER,
  rotateProposer,
  totalPower,
  updateValidatorSet,
  type ValidatorChange,
  type ValidatorSetResult,
  validatorsHash,
} from "./validator-set.ts";

const vectors = readCometVectors<{
  order: { validators: { address: string; voting_power: string }[]; proposers: string[] };
  priorities: { voting_powers: string[]; after: { times: number; priorities: string[]; proposer: number }[] };
}>("proposers.json");

const keyOf = (name: number): Uint8Array => sha256(Uint8Array.of(name));
const change = (name: number, votingPower: bigint): ValidatorChange => ({ publicKey: keyOf(name), votingPower });
const setOf = (result: ValidatorSetResult): ValidatorSet => must(result.ok ? result.set : undefined);
const faultOf = (result: ValidatorSetResult): string => (result.ok ? "ok" : result.fault);
const ofPowers = (...powers: readonly bigint[]): ValidatorSet =>
  setOf(createValidatorSet(powers.map((power, i) => change(i, power))));

function withAddress(address: string, votingPower: bigint): Validator {
  return { address: Buffer.from(address), publicKey: keyOf(0), votingPower, proposerPriority: 0n };
}

test("the order of proposers is CometBFT's", () => {
  const { validators: list, proposers } = vectors.order;
  const validators = list.map((item) => withAddress(item.address, BigInt(item.voting_power)));
  let set = rotateProposer({ validators, proposer: must(validators[0]) });
  const order = proposers.map(() => {
    const name = Buffer.from(set.proposer.address).toString();
    set = rotateProposer(set);
    return name;
  });
  assert.deepEqual(order, proposers);
});

test("priorities after some rounds at once are CometBFT's", () => {
  const { voting_powers: powers, after } = vectors.priorities;
  const validators = powers.map((power, i) => withAddress(String(i), BigInt(power)));
  for (const { times, priorities, proposer } of after) {
    const moved = rotateProposer({ validators, proposer: must(validators[0]) }, times);
    assert.deepEqual(
      moved.validators.map(({ proposerPriority }) => String(proposerPriority)),
      priorities,
    );
    assert.equal(Buffer.from(moved.proposer.address).toString(), String(proposer));
  }
});

test("equal powers propose in the order of addresses", () => {
  let set = ofPowers(100n, 100n, 100n);
  const order: Uint8Array[] = [];
  for (let i = 0; i < 6; i++, set = rotateProposer(set)) order.push(set.proposer.address);
  const addresses = set.validators.map(({ address }) => address);
  assertSame(order, [...addresses, ...addresses]);
  assertSame(
    addresses,
    addresses.toSorted((a, b) => Buffer.compare(a, b)),
  );
});

test("a single validator always proposes, with priority 0, whatever its power becomes", () => {
  let set = ofPowers(900n);
  for (const power of [900n, 1n, 1023n, MAX_TOTAL_POWER]) {
    set = rotateProposer(setOf(updateValidatorSet(set, [change(0, power)])), 3);
    assert.deepEqual([set.proposer.votingPower, set.proposer.proposerPriority], [power, 0n]);
  }
});

test("a newcomer starts 1.125 times the power behind", () => {
  const set = setOf(updateValidatorSet(ofPowers(80n), [change(1, 20n)]));
  // -112 and 0, brought to a mean of 0 (-56).
  assert.deepEqual(
    set.validators.map(({ votingPower, proposerPriority }) => [votingPower, proposerPriority]),
    [
      [80n, 56n],
      [20n, -56n],
    ],
  );
});

test("a newcomer's place counts the power that leaves in the same change", () => {
  const set = setOf(updateValidatorSet(ofPowers(60n, 20n), [change(1, 0n), change(2, 20n)]));
  // 100 together before the removal: -112 for the newcomer, -20 for who proposed last; their mean is -66.
  assert.deepEqual(
    set.validators.map(({ proposerPriority }) => proposerPriority),
    [46n, -46n],
  );
});

test("leaving and coming back gains no turns", () => {
  const start = ofPowers(10n, 10n, 10n);
  const away = rotateProposer(setOf(updateValidatorSet(start, [change(2, 0n)])));
  const back = rotateProposer(setOf(updateValidatorSet(away, [change(2, 10n)])));
  assertSame(back.validators.map((validator) => validator.publicKey).length, 3);
  const returned = must(back.validators.find(({ publicKey }) => Buffer.compare(publicKey, keyOf(2)) === 0));
  assert.ok(back.validators.every(({ proposerPriority }) => proposerPriority >= returned.proposerPriority));
});

test("changes that do not fit are refused, and the set stays", () => {
  const set = ofPowers(5n, 5n);
  assert.equal(faultOf(updateValidatorSet(set, [change(0, 1n), change(0, 2n)])), "duplicate");
  assert.equal(faultOf(updateValidatorSet(set, [change(0, -1n)])), "bad_power");
  assert.equal(faultOf(updateValidatorSet(set, [change(7, 0n)])), "unknown");
  assert.equal(faultOf(updateValidatorSet(set, [change(0, 0n), change(1, 0n)])), "empty");
  assert.equal(faultOf(updateValidatorSet(set, [change(3, MAX_TOTAL_POWER)])), "too_much_power");
  assert.equal(faultOf(updateValidatorSet(set, [change(3, MAX_TOTAL_POWER + 1n)])), "bad_power");
  assert.equal(faultOf(updateValidatorSet(set, [{ publicKey: new Uint8Array(31), votingPower: 1n }])), "bad_key");
  assert.equal(faultOf(createValidatorSet([])), "empty");
  assert.equal(faultOf(createValidatorSet([change(0, 0n)])), "bad_power");
  assert.equal(setOf(updateValidatorSet(set, [])), set);
  assert.throws(() => rotateProposer(set, 0), { code: "INTERNAL" });
});

test("a removal makes room for power in the same change", () => {
  const set = ofPowers(MAX_TOTAL_POWER - 5n, 5n);
  assert.equal(faultOf(updateValidatorSet(set, [change(0, 0n), change(2, MAX_TOTAL_POWER - 5n)])), "ok");
});

const arbitraryPowers = fc.array(fc.bigInt({ min: 1n, max: 1_000_000n }), { minLength: 1, maxLength: 8 });

test("every validator proposes in proportion to its power", () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt({ min: 1n, max: 12n }), { minLength: 1, maxLength: 5 }), (powers) => {
      let set = ofPowers(...powers);
      const rounds = Number(totalPower(set.validators));
      const turns = new Map<string, number>();
      for (let i = 0; i < rounds; i++, set = rotateProposer(set)) {
        const name = Buffer.from(set.proposer.address).toString("hex");
        turns.set(name, (turns.get(name) ?? 0) + 1);
      }
      for (const { address, votingPower } of set.validators) {
        const found = turns.get(Buffer.from(address).toString("hex")) ?? 0;
        assert.ok(Math.abs(found - Number(votingPower)) <= 1);
      }
    }),
    { numRuns: 50 },
  );
});

test("a set is in order, its priorities are centred and in the window, in whatever order changes are given", () => {
  fc.assert(
    fc.property(arbitraryPowers, arbitraryPowers, fc.nat(5), (powers, more, times) => {
      const set = rotateProposer(ofPowers(...powers), times + 1);
      const changes = more.map((power, i) => change(i * 2, power));
      const updated = setOf(updateValidatorSet(set, changes));
      assertSame(updated, setOf(updateValidatorSet(set, changes.toReversed())));
      const { validators } = updated;
      validators.forEach((validator, i) => {
        const next = validators[i + 1];
        assert.ok(next === undefined || validator.votingPower >= next.votingPower);
      });
      const priorities = validators.map(({ proposerPriority }) => proposerPriority);
      const sum = priorities.reduce((a, b) => a + b, 0n);
      assert.ok(sum >= 0n && sum < BigInt(priorities.length));
      const sorted = priorities.toSorted((a, b) => (a < b ? -1 : 1));
      assert.ok(must(sorted.at(-1)) - must(sorted[0]) <= 2n * totalPower(validators));
    }),
    { numRuns: 100 },
  );
});

test("the hash of a set knows keys and powers, not priorities", () => {
  const set = ofPowers(3n, 2n);
  assertSame(validatorsHash(set), validatorsHash(rotateProposer(set, 3)));
  assert.notDeepEqual(validatorsHash(set), validatorsHash(ofPowers(3n, 1n)));
});
