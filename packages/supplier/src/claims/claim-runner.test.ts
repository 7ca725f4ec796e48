import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { claimedUpokt } from "@turnpike/protocol";
import { chainParty } from "@turnpike/testkit";
import { SupplierRig } from "../../test/supplier-rig.ts";

const ALWAYS = { params: { proof: { proof_request_probability: 1 } } };
const BASE_TARGET = new Uint8Array(32).fill(255);
const PRICING = { computeUnitsToTokensMultiplier: 42_000_000n, computeUnitCostGranularity: 1_000_000n };

async function upokt(rig: SupplierRig, name: string): Promise<bigint> {
  const found = await rig.running.queries.balance(chainParty(name).address, { fresh: true });
  return found.ok ? found.value : assert.fail(found.text);
}

async function stake(rig: SupplierRig, name = "app"): Promise<bigint> {
  const found = await rig.running.queries.application(chainParty(name).address, { fresh: true });
  return BigInt((found.ok ? found.value.stake?.amount : undefined) ?? assert.fail("no stake"));
}

suite("ClaimRunner", () => {
  test("relays are claimed, proven and paid on a real chain, to the last upokt", async () => {
    await using rig = await SupplierRig.start({
      ...ALWAYS,
      suppliers: { supplier: { services: ["eth"], owner: "owner", shares: { owner: 60n, supplier: 40n } } },
    });
    const before = {
      supplier: await upokt(rig, "supplier"),
      owner: await upokt(rig, "owner"),
      stake: await stake(rig),
    };
    const header = await rig.serve(7);
    assert.equal(header.sessionEndBlockHeight, 6n);
    const session = rig.running.store.session(rig.running.operator, header.sessionId) ?? assert.fail();
    const { windows } = session.head.terms;
    const phases: string[] = [];
    while (rig.chain.heightBlocks < windows.settlementHeight) {
      await rig.block();
      const { phase } = session.state;
      if (phases.at(-1)?.endsWith(phase) !== true) phases.push(`${rig.chain.heightBlocks} ${phase}`);
    }
    // Windows: claims 8 to 14, proofs 15 to 22.
    assert.deepEqual(phases, ["2 open", "8 sealed", "9 claimed", "16 proven", "22 settled"]);
    const claimed = claimedUpokt(700n, BASE_TARGET, PRICING);
    assert.equal(claimed, 7n * 4_200n);
    const { outcome, claim, feesUpokt, isProofRequired } = session.state;
    assert.equal(claim?.expectedUpokt, claimed);
    assert.equal(isProofRequired, true);
    assert.ok(outcome?.kind === "settled");
    assert.deepEqual([outcome.claimedUpokt, outcome.settledUpokt, outcome.heightBlocks], [claimed, claimed, 22n]);
    // 70 % of the work's price, and of the tenth that is minted on top.
    const share = (claimed * 7n) / 10n + (claimed * 7n) / 100n;
    const received = Object.values(outcome.rewards).reduce((sum, amount) => sum + amount, 0n);
    assert.equal(received, share);
    // One upokt for each of two transactions, and the proof's own fee.
    assert.equal(feesUpokt, 2n);
    const operator = outcome.rewards[chainParty("supplier").address] ?? 0n;
    const owner = outcome.rewards[chainParty("owner").address] ?? 0n;
    assert.equal((await upokt(rig, "owner")) - before.owner, owner);
    assert.equal((await upokt(rig, "supplier")) - before.supplier, operator - feesUpokt - 1n);
    assert.equal(before.stake - (await stake(rig)), claimed + claimed / 10n);
  });

  test("claims of all sessions that end together are one transaction, and so are their proofs", async () => {
    const names = ["app", "app2", "app3"];
    const applications = Object.fromEntries(names.map((name) => [name, { service: "eth", gateways: ["gateway"] }]));
    await using rig = await SupplierRig.start({ ...ALWAYS, applications });
    for (const [i, name] of names.entries()) await rig.serve(i + 1, name);
    const txs: bigint[] = [];
    while (rig.chain.heightBlocks < 22n) {
      await rig.block();
      const { client } = rig.running;
      const found = await client.searchTxs({
        query: `tx.height=${rig.chain.heightBlocks}`,
        page: 1,
        perPage: 10,
        newestFirst: false,
      });
      if (found.total > 0n) txs.push(rig.chain.heightBlocks, found.total);
    }
    assert.deepEqual(txs, [9n, 1n, 16n, 1n]);
    const sessions = rig.running.store.sessions(rig.running.operator);
    assert.deepEqual(
      new Set(sessions.map(({ state }) => state.outcome?.kind === "settled" && state.outcome.settledUpokt)),
      new Set([4_200n, 8_400n, 12_600n]),
    );
  });
});
