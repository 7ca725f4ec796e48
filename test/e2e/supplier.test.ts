import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { SupplyReport } from "@turnpike/supplier";
import { chainParty } from "@turnpike/testkit/chain";
import { SupplierProcess } from "./supplier-process.ts";

const FIRST = "e2e supplier one";
const SECOND = "e2e supplier two";
const OWNER = "e2e supplier owner";

suite("turnpike supplier", () => {
  test("a killed supplier is paid for every answer that left it, and its status says what the chain did", async () => {
    await using rig = await SupplierProcess.start([FIRST, SECOND], {
      params: { proof: { proof_request_probability: 1 } },
      suppliers: {
        [FIRST]: { services: ["eth"], owner: OWNER, shares: { [OWNER]: 60n, [FIRST]: 40n } },
        [SECOND]: { services: ["eth"] },
      },
    });
    const [before, stakeBefore] = [await rig.upokt(OWNER), await rig.stake()];
    const first = await rig.upokt(FIRST);
    const header = await rig.header();
    for (let i = 0; i < 4; i++) await rig.relay(FIRST, header);
    for (let i = 0; i < 2; i++) await rig.relay(SECOND, header);
    // Nothing but the answers has happened since.
    await rig.kill();
    const stopped = await rig.run("supplier", "status", "--json");
    assert.equal(stopped.code, 0, stopped.err);
    const dead = JSON.parse(stopped.out) as SupplyReport & { readonly isRunning: boolean };
    assert.equal(dead.isRunning, false);
    assert.deepEqual(new Set(dead.operators.map(({ all }) => Number(all.relays.mined))), new Set([2, 4]));
    await rig.startSupplier();
    await rig.relay(FIRST, header);
    const another = await rig.run("supplier", "start");
    assert.equal(another.code, 1);
    assert.match(another.err, /OPERATOR_KEY_HELD: The operator key pokt1\w+ is held by process \d+/);
    while (rig.chain.heightBlocks < 9n) await rig.block();
    const claims = await rig.claims();
    assert.equal(claims.length, 2);
    while (rig.chain.heightBlocks < 16n) await rig.block();
    assert.deepEqual(
      (await rig.claims()).map(({ proofValidationStatus }) => proofValidationStatus),
      [1, 1],
      "both are proven",
    );
    await rig.kill();
    await rig.startSupplier();
    while (rig.chain.heightBlocks < 22n) await rig.block();
    assert.deepEqual(await rig.claims(), []);
    await rig.kill("SIGTERM");
    const ran = await rig.run("supplier", "status", "--json");
    const { operators } = JSON.parse(ran.out) as SupplyReport;
    const of = (name: string) =>
      operators.find(({ operatorAddress }) => operatorAddress === chainParty(name).address)?.all ?? assert.fail();
    const [one, two] = [of(FIRST), of(SECOND)];
    const price = 4_200n;
    for (const [{ relays, upokt, lost }, count] of [
      [one, 5n],
      [two, 2n],
    ] as const) {
      const { mined, claimed, proven, settled } = relays;
      assert.deepEqual([mined, claimed, proven, settled].map(BigInt), [count, count, count, count]);
      assert.deepEqual([upokt.expected, upokt.settled].map(BigInt), [count * price, count * price]);
      assert.deepEqual(lost, {});
    }
    // The application pays for the work, and a tenth more that is minted beside.
    assert.equal(stakeBefore - (await rig.stake()), (7n * price * 11n) / 10n);
    const gained = (await rig.upokt(OWNER)) - before;
    // What the operator's fees took, and the proof's own, has left its account.
    const operatorGained = (await rig.upokt(FIRST)) - first + BigInt(one.upokt.fees) + 1n;
    assert.equal(gained + operatorGained, BigInt(one.upokt.received));
    assert.equal(BigInt(one.upokt.received), (5n * price * 77n) / 100n);
    const shown = await rig.run("supplier", "status");
    assert.match(shown.out, /^No supplier answers at supplier\.metrics; this is what \S+relays has\.$/m);
    assert.match(shown.out, /^eth +5 +5 +5 +5 +5 +21,000 +21,000 +16,170 +-$/m);
  });
});
