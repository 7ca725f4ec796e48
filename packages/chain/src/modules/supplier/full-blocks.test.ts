import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { createMessage, shared } from "@turnpike/proto";
import { stakeOf, TestChain } from "../../../test/modules/supplier/suppliers.ts";
import { planted } from "../../../test/planted.ts";
import { bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import { addressText } from "../../state/addresses.ts";
import { upokt } from "../../state/stakes.ts";
import { getBalance } from "../bank/balances.ts";
import { MAX_CONFIGS_PER_BLOCK } from "./blocks.ts";
import {
  configsByDeactivation,
  SUPPLIER_MODULE,
  serviceConfigs,
  serviceEnds,
  setSupplier,
  suppliers,
} from "./state.ts";

const NUM_SUPPLIERS = 5;
const SERVICES_EACH = MAX_CONFIGS_PER_BLOCK / NUM_SUPPLIERS + 100;
const ALL = NUM_SUPPLIERS * SERVICES_EACH;
const COUNTS = [MAX_CONFIGS_PER_BLOCK, ALL - MAX_CONFIGS_PER_BLOCK];
const STAKE = 2_000_000n;

const operators = Array.from({ length: NUM_SUPPLIERS }, (_, i) => addressText(new Uint8Array(20).fill(i + 1)));

/** Suppliers with more configurations than the maximum of a block, all with the same heights. */
function begin(
  span: Pick<shared.ServiceConfigUpdate, "activationHeight" | "deactivationHeight">,
  since = 0n,
): TestChain {
  const chain = new TestChain();
  const ctx = chain.at(1n);
  fund(ctx, moduleAddress(SUPPLIER_MODULE), STAKE * BigInt(NUM_SUPPLIERS));
  for (const operatorAddress of operators) {
    const [service] = stakeOf(operatorAddress).services;
    assert.ok(service);
    const serviceConfigHistory = Array.from({ length: SERVICES_EACH }, (_, i) =>
      createMessage(shared.ServiceConfigUpdateSchema, {
        operatorAddress,
        service: { ...service, serviceId: `s${i}` },
        ...span,
      }),
    );
    const record = { operatorAddress, ownerAddress: operatorAddress, stake: upokt(STAKE), serviceConfigHistory };
    setSupplier(ctx, planted(createMessage(shared.SupplierSchema, { ...record, unstakeSessionEndHeight: since })));
  }
  return chain;
}

function countOf(entries: Iterable<unknown>): number {
  let count = 0;
  for (const _ of entries) count++;
  return count;
}

suite("blocks in which many suppliers' configurations begin or end at once", () => {
  test("attack: a block prunes a maximum of ended configurations, the next ones the others", () => {
    const chain = begin({ activationHeight: 1n, deactivationHeight: 11n });
    const counts: number[] = [];
    for (let height = 11n; height < 40n; height++) {
      const before = countOf(serviceConfigs.rawEntries(chain.at(height)));
      chain.block(height);
      const count = before - countOf(serviceConfigs.rawEntries(chain.at(height)));
      if (count > 0) counts.push(count);
    }
    assert.deepEqual(counts, COUNTS);
    assert.equal(countOf(configsByDeactivation.rawEntries(chain.at(40n))), 0);
  });

  test("attack: a block reports a maximum of configurations that begin, the next ones the others, each once and in order", () => {
    const chain = begin({ activationHeight: 11n, deactivationHeight: 0n });
    const reported: string[][] = [];
    for (let height = 10n; height < 22n; height++) {
      const events = chain.block(height).filter(({ type }) => type.endsWith("EventSupplierServiceConfigActivated"));
      if (events.length > 0) reported.push(events.map(({ attributes }) => JSON.stringify(attributes.slice(0, 3))));
    }
    assert.deepEqual(
      reported.map(({ length }) => length),
      COUNTS,
    );
    assert.equal(new Set(reported.flat()).size, ALL);
  });

  test("attack: suppliers that end their unbonding in one block get their whole stake in it, and their configurations go in several", () => {
    // Their configurations are not pruned before: they ended with the session in which the suppliers go.
    const chain = begin({ activationHeight: 1n, deactivationHeight: 41n }, 10n);
    const counts: number[] = [];
    for (let height = 38n; height < 70n; height++) {
      const before = countOf(serviceConfigs.rawEntries(chain.at(height)));
      chain.block(height);
      const count = before - countOf(serviceConfigs.rawEntries(chain.at(height)));
      if (count > 0) counts.push(count);
      const numSuppliers = countOf(suppliers.entries(chain.at(height)));
      assert.equal(numSuppliers, height < 40n ? NUM_SUPPLIERS : 0);
    }
    assert.deepEqual(counts, COUNTS);
    const ctx = chain.at(70n);
    const remaining = [serviceConfigs, configsByDeactivation, serviceEnds].map((entries) =>
      countOf(entries.rawEntries(ctx)),
    );
    assert.deepEqual(remaining, [0, 0, 0]);
    for (const operator of operators) assert.equal(getBalance(ctx, bytesOfAddress(operator), "upokt"), STAKE);
  });
});
