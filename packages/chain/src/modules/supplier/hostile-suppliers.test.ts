import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createMessage, shared, supplier } from "@turnpike/proto";
import { assertOnlyFaults, sampleOf } from "../../../test/modules/supplier/hostile.ts";
import { AUTHORITY, blockAt, machine, stakeOf, TestChain } from "../../../test/modules/supplier/suppliers.ts";
import { bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import { addressText } from "../../state/addresses.ts";
import { upokt } from "../../state/stakes.ts";
import { getBalance } from "../bank/balances.ts";
import { getSharedParams, sharedParams } from "../shared/state.ts";
import { isEndpointUrl } from "./endpoint-url.ts";
import { getSupplier } from "./state.ts";
import { supplierModule } from "./supplier-module.ts";

const ANNA = addressText(new Uint8Array(20).fill(1));

suite("suppliers: hostile input", () => {
  test("10,000 bent messages end in faults, or in nothing worse than what a right one does", () => {
    const chain = new TestChain();
    fund(chain.at(1n), ANNA, 10_000_000n);
    assert.ok(chain.run(5n, supplier.MsgStakeSupplierSchema, stakeOf(ANNA)).ok);
    const coin = { denom: "upokt", amount: "5" };
    const samples = [
      sampleOf(supplier.MsgStakeSupplierSchema, stakeOf(ANNA, {}, ["anvil", "rest"])),
      sampleOf(
        supplier.MsgUnstakeSupplierSchema,
        createMessage(supplier.MsgUnstakeSupplierSchema, { signer: ANNA, operatorAddress: ANNA }),
      ),
      sampleOf(
        supplier.MsgUpdateParamSchema,
        createMessage(supplier.MsgUpdateParamSchema, {
          authority: AUTHORITY,
          name: "min_stake",
          asType: { case: "asCoin", value: coin },
        }),
      ),
      sampleOf(
        supplier.MsgUpdateParamsSchema,
        createMessage(supplier.MsgUpdateParamsSchema, {
          authority: AUTHORITY,
          params: { minStake: coin, stakingFee: coin },
        }),
      ),
    ];
    const { taken, refused } = assertOnlyFaults(
      supplierModule({ authority: AUTHORITY }),
      chain.at(8n),
      samples,
      10_000,
    );
    assert.ok(taken > 50 && refused > 5_000, `${taken} ${refused}`);
  });

  test("attack: a revenue share's address is as long as a key's or a module's account's: it is in the events of each claim", () => {
    const chain = new TestChain();
    fund(chain.at(1n), ANNA, 1_000_000_000n);
    const stakeWith = (address: string, stake: string) => {
      const message = stakeOf(ANNA, { stake: upokt(BigInt(stake)) });
      const services = message.services.map((service) => ({
        ...service,
        revShare: [createMessage(shared.ServiceRevenueShareSchema, { address, revSharePercentage: 100n })],
      }));
      return chain.run(5n, supplier.MsgStakeSupplierSchema, { ...message, services });
    };
    for (const length of [1, 19, 21, 31, 33, 64, 255]) {
      const address = addressText(new Uint8Array(length).fill(7));
      const outcome = stakeWith(address, "1000000");
      assert.ok(!outcome.ok, `${length} bytes`);
      assert.match(
        outcome.fault.text,
        /invalid rev share address pokt1[a-z0-9]+; \(address length must be 20 or 32, got \d+: unknown address\)/,
      );
    }
    for (const [i, length] of [20, 32].entries()) {
      const outcome = stakeWith(addressText(new Uint8Array(length).fill(7)), `${1_000_000 + i}`);
      assert.ok(outcome.ok, outcome.ok ? "" : outcome.fault.text);
    }
  });

  test("attack: a stranger stakes under an operator's address, and its owner takes it back; the stranger gets its stake", () => {
    const chain = new TestChain();
    const [stranger, operator] = [ANNA, addressText(new Uint8Array(20).fill(2))];
    for (const address of [stranger, operator]) fund(chain.at(1n), address, 10_000_000n);
    const balance = (address: string): bigint => getBalance(chain.at(6n), bytesOfAddress(address), "upokt");
    const oldBalance = balance(stranger);
    const parties = { signer: stranger, ownerAddress: stranger, operatorAddress: operator };
    const squat = { ...stakeOf(stranger), ...parties, services: [] };
    assert.ok(chain.run(5n, supplier.MsgStakeSupplierSchema, squat).ok);
    // The stranger cannot make services, and no third party can replace it.
    const third = addressText(new Uint8Array(20).fill(3));
    const foreign = { ...stakeOf(third), signer: third, ownerAddress: third, operatorAddress: operator, services: [] };
    assert.equal(chain.run(5n, supplier.MsgStakeSupplierSchema, foreign).ok, false);
    const outcome = chain.run(6n, supplier.MsgStakeSupplierSchema, stakeOf(operator));
    assert.ok(outcome.ok, outcome.ok ? "" : outcome.fault.text);
    const record = getSupplier(chain.at(6n), operator) ?? assert.fail();
    assert.deepEqual([record.ownerAddress, record.serviceConfigHistory.length], [operator, 1]);
    assert.equal(oldBalance - balance(stranger), 1n, "the staking fee alone");
    // With the operator's services, the owner is who it agreed to.
    const back = { ...stakeOf(operator), ownerAddress: stranger, services: [] };
    assert.ok(chain.run(7n, supplier.MsgStakeSupplierSchema, back).ok);
    assert.equal(chain.run(8n, supplier.MsgStakeSupplierSchema, stakeOf(operator)).ok, false);
  });

  test("attack: an owner's stake leaves an unbonding supplier at once, when its ended services were pruned", () => {
    const chain = new TestChain();
    const [owner, operator, second] = [1, 2, 3].map((n) => addressText(new Uint8Array(20).fill(n))) as [
      string,
      string,
      string,
    ];
    for (const address of [owner, operator, second]) fund(chain.at(1n), address, 10_000_000n);
    const params = getSharedParams(chain.at(1n));
    sharedParams.set(chain.at(1n), undefined, { ...params, supplierUnbondingPeriodSessions: 1_000n });
    const balance = (): bigint => getBalance(chain.at(60n), bytesOfAddress(owner), "upokt");
    const parties = { ownerAddress: owner, operatorAddress: operator };
    assert.ok(chain.run(1n, supplier.MsgStakeSupplierSchema, { ...stakeOf(operator), ...parties }).ok);
    const unstake = createMessage(supplier.MsgUnstakeSupplierSchema, { signer: operator, operatorAddress: operator });
    assert.ok(chain.run(15n, supplier.MsgUnstakeSupplierSchema, unstake).ok);
    for (let height = 15n; height < 60n; height++) chain.block(height);
    assert.deepEqual(getSupplier(chain.at(60n), operator)?.serviceConfigHistory, []);
    const before = balance();
    const outcome = chain.run(60n, supplier.MsgStakeSupplierSchema, { ...stakeOf(operator), ownerAddress: second });
    assert.match(outcome.ok ? "" : outcome.fault.text, /is not allowed to update the owner address/);
    assert.equal(balance(), before);
  });

  test("attack: a stranger that stakes under an operator's address and unstakes at once does not keep it out either", () => {
    const chain = new TestChain();
    const [stranger, operator] = [ANNA, addressText(new Uint8Array(20).fill(2))];
    for (const address of [stranger, operator]) fund(chain.at(1n), address, 10_000_000n);
    const parties = { signer: stranger, ownerAddress: stranger, operatorAddress: operator };
    assert.ok(chain.run(5n, supplier.MsgStakeSupplierSchema, { ...stakeOf(stranger), ...parties, services: [] }).ok);
    const unstake = createMessage(supplier.MsgUnstakeSupplierSchema, { signer: stranger, operatorAddress: operator });
    assert.ok(chain.run(5n, supplier.MsgUnstakeSupplierSchema, unstake).ok);
    const exported = machine.exportGenesis(chain.state, blockAt(5n));
    const copy = new TestChain(JSON.parse(JSON.stringify(exported)) as Record<string, unknown>);
    for (const one of [chain, copy]) {
      const outcome = one.run(6n, supplier.MsgStakeSupplierSchema, stakeOf(operator));
      assert.ok(outcome.ok, outcome.ok ? "" : outcome.fault.text);
      assert.equal(getSupplier(one.at(6n), operator)?.ownerAddress, operator);
    }
  });

  test("stakes that are no amount are refused by the mempool with the module's code", () => {
    const chain = new TestChain();
    const stake = stakeOf(ANNA).stake ?? assert.fail();
    for (const [amount, denom, text] of [
      ["0", "upokt", "invalid coin amount: 0upokt <= 0"],
      ["5", "mact", "invalid coin denom: expected upokt, got mact"],
      ["-5", "upokt", "while parsing coin -5upokt; (invalid decimal coin expression: -5upokt)"],
      ["", "upokt", "while parsing coin <nil>upokt; (invalid decimal coin expression: <nil>upokt)"],
      ["5", "", "while parsing coin 5; (invalid decimal coin expression: 5)"],
      ["9".repeat(90), "upokt", undefined],
    ] as const) {
      const message = stakeOf(ANNA, { stake: { ...stake, amount, denom } });
      const result = chain.run(5n, supplier.MsgStakeSupplierSchema, message);
      assert.ok(!result.ok);
      assert.deepEqual([result.fault.codespace, result.fault.code], ["supplier", 1101]);
      if (text !== undefined) assert.equal(result.fault.text, `${text}: invalid supplier stake`);
    }
  });

  test("a configuration is bounded, as every session of the service carries it", () => {
    const chain = new TestChain();
    fund(chain.at(1n), ANNA, 10_000_000n);
    const staked = (count: number) => {
      const message = stakeOf(ANNA, {}, ["anvil"]);
      const [config] = message.services;
      const [endpoint] = config?.endpoints ?? [];
      config?.endpoints.push(...Array.from({ length: count }, () => endpoint ?? assert.fail()));
      return chain.run(5n, supplier.MsgStakeSupplierSchema, message);
    };
    const result = staked(10_000);
    assert.ok(!result.ok && result.fault.code === 1104, JSON.stringify(result));
    assert.match(result.fault.text, /^service config of "anvil" has \d+ bytes; at most 65536: /);
    assert.ok(staked(100).ok);
  });

  test("queries with keys, filters and limits that make no sense are answered or refused", () => {
    const chain = new TestChain();
    fund(chain.at(1n), ANNA, 10_000_000n);
    assert.ok(chain.run(5n, supplier.MsgStakeSupplierSchema, stakeOf(ANNA)).ok);
    const ask = (json: Record<string, unknown>) => chain.ask(15n, "AllSuppliers", json) as { code?: number };
    for (const service of [{}, { service_id: "anvil" }, { service_id: "nosuch" }]) {
      for (const key of ["AA==", "AAAAAAAAAAs=", "AAAAAAAAAAsv", "/////////////////w==", "L2E=", "YS8="]) {
        for (const reverse of [false, true]) {
          assert.equal(
            ask({ ...service, pagination: { key, reverse, limit: "18446744073709551615" } }).code,
            undefined,
          );
        }
      }
    }
    assert.equal(ask({ pagination: { key: "AA==", offset: "1" } }).code, 13);
    assert.equal(ask({ service_id: "a b" }).code, 3);
    assert.equal(ask({ owner_address: "x" }).code, 3);
    assert.equal(ask({ operator_address: "x" }).code, 3);
    assert.deepEqual(ask({ operator_address: addressText(new Uint8Array(20)) }), { supplier: [], pagination: null });
  });

  test("URLs as Go reads them", () => {
    for (const url of [
      "http://a",
      "https://a.b:80/c?d#e",
      "HTTP://a",
      "ws://[::1]:80",
      "wss://:8080",
      "http://a:",
      "http://u:p@a",
      "http://a%C3%A4",
      "http://ä.de/%20",
      "http://a?%zz",
      "http://a/b c",
      "http://a_b",
    ])
      assert.ok(isEndpointUrl(url), url);
    for (const url of [
      "",
      "a",
      "a.b:80",
      "ftp://a",
      "http:a",
      "http:/a",
      "http://",
      "http:///a",
      "http://u@",
      "http://a b",
      "http://a:x",
      "http://a/%zz",
      "http://a#%zz",
      "http://%41",
      "http://[::1",
      "http://[::1]x",
      "http://a\n",
      "http://a\u007f",
      " http://a",
      "http://a{",
      "http://u{@a",
    ])
      assert.ok(!isEndpointUrl(url), url);
  });
});
