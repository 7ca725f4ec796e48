import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { SupplyReport } from "@turnpike/supplier";
import { SupplierProcess } from "./supplier-process.ts";

const NAME = "e2e supplier restarts";

suite("a supplier that is killed", () => {
  test("after every few answers, and every third block until the settlement, forfeits nothing: all that it answered is settled", async () => {
    await using rig = await SupplierProcess.start([NAME], { params: { proof: { proof_request_probability: 1 } } });
    const stakeBefore = await rig.stake();
    let served = 0n;
    while (rig.chain.heightBlocks < 10n) {
      const header = await rig.header();
      await Promise.all(Array.from({ length: 3 }, () => rig.relay(NAME, header)));
      served += 3n;
      await rig.kill();
      await rig.startSupplier();
      await rig.block();
      await rig.block();
    }
    while (rig.chain.heightBlocks < 28n) {
      await rig.kill();
      await rig.startSupplier();
      for (let blocks = 0; blocks < 3; blocks++) await rig.block();
    }
    const { operators } = JSON.parse((await rig.run("supplier", "status", "--json")).out) as SupplyReport;
    const { all } = operators[0] ?? assert.fail();
    assert.deepEqual([all.relays.mined, all.relays.settled].map(BigInt), [served, served]);
    assert.deepEqual(all.lost, {});
    assert.equal(stakeBefore - (await rig.stake()), (served * 4_200n * 11n) / 10n);
  });
});
