import assert from "node:assert/strict";
import { test } from "node:test";
import { CheckQueue } from "./check-queue.ts";

/** A queue, and the checks in it that have begun. */
function open() {
  const queue = new CheckQueue({ maxRunning: 8, maxChecks: 32 });
  const begun: string[] = [];
  const check = (client: string | undefined, payer: string, end: Promise<unknown> = Promise.resolve()) =>
    queue.run({ client, payer }, async () => {
      begun.push(client ?? payer);
      await end;
      return "checked";
    });
  return { check, begun };
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

test("attack: checks of one client that never end leave places to others, and are refused when many wait", async () => {
  const { check, begun } = open();
  const blocked = Promise.withResolvers<void>();
  const attacks = Array.from({ length: 40 }, (_, at) => check("attacker", `wallet ${at}`, blocked.promise));
  await turns();
  assert.equal(begun.length, 2, "a quarter of those that run");
  assert.deepEqual(await Promise.all(attacks.slice(8)), Array(32).fill("each"), "a quarter of all run or wait");
  const honest = Array.from({ length: 8 }, (_, at) => check("honest", `payer ${at}`));
  assert.deepEqual(await Promise.all(honest), Array(8).fill("checked"), "one after another, in its own places");
  blocked.resolve();
  assert.deepEqual(await Promise.all(attacks.slice(0, 8)), Array(8).fill("checked"));
});

test("attack: checks that name a payer at one client count for no other client's, and leave that client room", async () => {
  const { check } = open();
  const blocked = Promise.withResolvers<void>();
  const attacks = Array.from({ length: 12 }, () => check("attacker", "one wallet", blocked.promise));
  assert.deepEqual(await Promise.all(attacks.slice(6)), Array(6).fill("each"), "three quarters of the client's");
  const others = [check("attacker", "another wallet", blocked.promise), check("attacker", "a third", blocked.promise)];
  const burst = Array.from({ length: 6 }, () => check("honest", "one wallet"));
  assert.deepEqual(await Promise.all(burst), Array(6).fill("checked"));
  blocked.resolve();
  assert.deepEqual(await Promise.all([...attacks.slice(0, 6), ...others]), Array(8).fill("checked"));
});

test("clients that come and go leave places to others", async () => {
  const { check } = open();
  for (let round = 0; round < 3; round++) {
    const all = Array.from({ length: 30 }, (_, at) => check(`client ${at}`, `payer ${at}`));
    assert.ok((await Promise.all(all)).every((result) => result === "checked"));
  }
});

test("a check that throws gives its place back, and without a client its payer is the client", async () => {
  const { check } = open();
  for (let count = 0; count < 20; count++) {
    await assert.rejects(check(undefined, "payer", Promise.reject(new TypeError("a fault"))), TypeError);
  }
  assert.equal(await check(undefined, "payer"), "checked");
});
