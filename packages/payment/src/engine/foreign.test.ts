import assert from "node:assert/strict";
import { test } from "node:test";
import { type Metrics, noMetrics, silentLog } from "@turnpike/base";
import { devRpc, USDC_ADDRESS } from "@turnpike/localnet";
import { ANSWER, claim, NETWORK, newPayer, openOwnBed, PAY_TO, PRICE, timeLimit } from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { createSettlementChain } from "./chain.ts";
import { createEngine } from "./engine.ts";
import { createForeignWatch } from "./foreign.ts";

const server = testServer();

/** Counts what is reported. */
function counting(): Metrics & { readonly count: Metrics["count"]; readonly counted: () => number } {
  let counted = 0;
  return {
    ...noMetrics,
    count(spec) {
      if (spec.name === "turnpike_settlement_foreign_total") counted++;
    },
    counted: () => counted,
  };
}

test("attack: two sellers with one receiver and two databases, which cannot see each other, are found by their payments", async () => {
  await using bed = await openOwnBed(server());
  const [here, there] = [await bed.openLedger(), await bed.openLedger({ url: await server().database() })];
  await using _here = here;
  await using _there = there;
  const metrics = counting();
  const chain = createSettlementChain(bed.rpc);
  const rules = {
    network: NETWORK,
    confirmations: 1,
    finalityBlocks: 3,
    blockTimeSeconds: 60,
    receivers: [{ asset: USDC_ADDRESS, payTo: PAY_TO }],
  };
  const watch = createForeignWatch(rules, { chain, ledger: here, log: silentLog, metrics });
  const look = async (): Promise<number> => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x4"]);
    await watch.look(await chain.head(), timeLimit());
    return metrics.counted();
  };
  assert.equal(await look(), 0, "it begins here");
  await using own = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(here));
  await own.settle(await claim(here, await bed.payer(PRICE)), ANSWER, timeLimit());
  assert.equal(await look(), 0, "our own");

  await using other = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(there));
  await other.settle(await claim(there, await bed.payer(PRICE)), ANSWER, timeLimit());
  const elsewhere = await claim(there, await bed.payer(PRICE), { to: newPayer().address });
  await other.settle(elsewhere, ANSWER, timeLimit());
  assert.equal(await look(), 1, "of another seller, to our receiver");
  assert.equal(await look(), 1, "once");

  // The attack: one authorization at both. The transfer is evidence for each of them.
  const payer = await bed.payer(PRICE);
  const nonce = `0x${"07".repeat(32)}` as const;
  const twice = [await claim(there, payer, { nonce }), await claim(here, payer, { nonce })] as const;
  await other.settle(twice[0], ANSWER, timeLimit());
  await own.settle(twice[1], ANSWER, timeLimit());
  assert.equal(await look(), 1, "it is ours as well");
});
