import assert from "node:assert/strict";
import { test } from "node:test";
import { decimalToUnits, type Labels, type MetricSpec, noFaults, noMetrics } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually, type VirtualClock, virtualClock } from "@turnpike/testkit";
import {
  ANSWER,
  type Bed,
  claim,
  NETWORK,
  openOwnBed,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { Sale, Settler } from "../settler.ts";
import type { PaymentRecord } from "../types.ts";
import { createEngine } from "./engine.ts";
import { settlementGasPerPayment, settlementUnprofitableTotal } from "./metrics.ts";
import type { EngineNetwork } from "./options.ts";
import { PRICE_DECIMALS, type WhenUnprofitable } from "./profit.ts";

const server = testServer();

/** At $2,000 a coin: a payment of half a cent pays for a transaction of its own. */
const CHEAP = 10_000_000n;
/** It pays its share of a transaction of ten or more, and not one of its own. */
const SHARED = 50_000_000n;
/** It pays nothing. */
const DEAR = 2_000_000_000n;

interface Rig extends AsyncDisposable {
  readonly bed: Bed;
  readonly ledger: Ledger;
  readonly engine: Settler;
  readonly clock: VirtualClock;
  readonly relayer: `0x${string}`;
  readonly actions: string[];
  readonly gauges: Map<string, number>;
  mineAt(baseFee: bigint): Promise<void>;
  claims(count: number, validBefore?: bigint): Promise<PaymentRecord[]>;
  sent(): Promise<number>;
}

async function openRig(rule: WhenUnprofitable, change: Partial<EngineNetwork> = {}, baseFee = CHEAP): Promise<Rig> {
  await using owned = new AsyncDisposableStack();
  const bed = owned.use(await openOwnBed(server()));
  const ledger = owned.use(await bed.openLedger());
  const key = await bed.relayerKey();
  const clock = virtualClock();
  const actions: string[] = [];
  const gauges = new Map<string, number>();
  const metrics = {
    ...noMetrics,
    count(spec: MetricSpec, labels?: Labels, by = 1) {
      for (let n = 0; spec === settlementUnprofitableTotal && n < by; n++) actions.push(labels?.action ?? "");
    },
    set(spec: MetricSpec, value: number, labels?: Labels) {
      if (spec === settlementGasPerPayment) gauges.set(labels?.kind ?? "", value);
    },
  };
  const price = (text: string): bigint => decimalToUnits(text, PRICE_DECIMALS);
  const profit = () => ({
    whenUnprofitable: rule,
    maxCostPercent: 100,
    coinPriceUsd: price("2000"),
    assets: new Map([[USDC_ADDRESS.toLowerCase(), { decimals: 6, priceUsd: price("1") }]]),
  });
  const mineAt = async (fee: bigint): Promise<void> => {
    await devRpc(bed.anvil.url, "anvil_setNextBlockBaseFeePerGas", [`0x${fee.toString(16)}`]);
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  };
  await mineAt(baseFee);
  const own = { profit, holdMs: 5_000, holdReserveMs: 10_000, batchWindowMs: 0, ...change };
  const { networks, ...options } = bed.options([key], { maxQueueMs: 1_000_000_000 });
  const engine = owned.use(
    await createEngine(
      { ...options, networks: networks.map((net) => ({ ...net, ...own })) },
      { ...bed.modules(ledger, noFaults, clock), metrics },
    ),
  );
  const resources = owned.move();
  const relayer = privateKeyToAddress(key);
  return {
    bed,
    ledger,
    engine,
    clock,
    relayer,
    actions,
    gauges,
    mineAt,
    claims: (count, validBefore) =>
      Promise.all(
        Array.from({ length: count }, async () =>
          claim(ledger, await bed.payer(PRICE), validBefore === undefined ? {} : { validBefore }),
        ),
      ),
    sent: async () => Number(await devRpc(bed.anvil.url, "eth_getTransactionCount", [relayer, "latest"])),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

const saleOf = ({ key, kind, value, payTo }: Omit<PaymentRecord, "id">): Sale => ({
  network: NETWORK,
  asset: key.asset,
  payTo,
  from: key.from,
  kind,
  value,
  spareMs: 600_000,
});

test("refuse: the newest block's fee decides, and the sale is served again when it falls", async () => {
  await using rig = await openRig("refuse");
  const [payment] = await rig.claims(1);
  const sale = saleOf(payment ?? assert.fail());
  const refused = (): string | undefined => rig.engine.refusal?.(sale)?.code;
  assert.equal(refused(), undefined);
  await rig.mineAt(DEAR);
  await eventually("it is refused", () => refused() === "SETTLEMENT_UNPROFITABLE");
  assert.deepEqual(rig.engine.missing(), [], "the network settles: it is the sale that does not pay");
  await rig.mineAt(CHEAP);
  await eventually("it is served", () => refused() === undefined);
});

test("a spike behind the claim: what is served is settled, and counted as a loss", async () => {
  await using rig = await openRig("refuse");
  const [payment] = await rig.claims(1);
  assert.ok(payment !== undefined);
  assert.equal(rig.engine.refusal?.(saleOf(payment)), undefined);
  await rig.mineAt(DEAR);
  await eventually("the spike is seen", () => rig.engine.refusal?.(saleOf(payment)) !== undefined);
  await rig.engine.settle(payment, ANSWER, timeLimit());
  assert.equal((await stateOf(rig.ledger, payment)).state, "settled");
  assert.equal(rig.actions.filter((action) => action === "settled").length, 1);
});

test("a spike over the cap behind the claim: nothing is sent, and the claim is free to be released", async () => {
  await using rig = await openRig("wait", { maxFeePerGasWei: 1_000_000_000n });
  const [payment] = await rig.claims(1);
  assert.ok(payment !== undefined);
  await rig.mineAt(DEAR);
  await eventually("the spike is seen", () => rig.engine.missing().length > 0);
  const settling = rig.engine.settle(payment, ANSWER, timeLimit());
  await eventually("it is held", () => rig.actions.includes("held"));
  rig.clock.advance(5_000);
  await assert.rejects(settling, { code: "SETTLEMENT_UNAVAILABLE" });
  assert.equal((await stateOf(rig.ledger, payment)).state, "claimed");
  assert.equal(await rig.sent(), 0);
});

test("wait: payments are held until enough of them share a transaction, and all settle in that one", async () => {
  await using rig = await openRig("wait", {}, SHARED);
  const payments = await rig.claims(14);
  const settling = payments.slice(0, 3).map((payment) => rig.engine.settle(payment, ANSWER, timeLimit()));
  await eventually("three are held", () => rig.actions.filter((action) => action === "held").length === 3);
  settling.push(...payments.slice(3).map((payment) => rig.engine.settle(payment, ANSWER, timeLimit())));
  await Promise.all(settling);
  const records = await Promise.all(payments.map((payment) => stateOf(rig.ledger, payment)));
  assert.deepEqual([...new Set(records.map(({ state }) => state))], ["settled"]);
  const first = records[0]?.evidence?.transaction;
  const together = records.filter(({ evidence }) => evidence?.transaction === first).length;
  assert.ok(together >= 10, `${together} share the first one's transaction`);
  assert.equal(rig.actions.includes("settled"), false, "none at a loss");
});

test("wait: one that stays by itself is settled at the end of its time, at a loss that is counted", async () => {
  await using rig = await openRig("wait", {}, SHARED);
  const [payment] = await rig.claims(1);
  assert.ok(payment !== undefined);
  const settling = rig.engine.settle(payment, ANSWER, timeLimit());
  await eventually("it is held", () => rig.actions.includes("held"));
  rig.clock.advance(4_999);
  assert.equal((await stateOf(rig.ledger, payment)).state, "claimed");
  assert.equal(await rig.sent(), 0);
  rig.clock.advance(1);
  await settling;
  assert.equal((await stateOf(rig.ledger, payment)).state, "settled");
  assert.deepEqual(rig.actions, ["held", "settled"]);
});

test("wait: a fee that falls ends the wait", async () => {
  await using rig = await openRig("wait", {}, SHARED);
  const [payment] = await rig.claims(1);
  assert.ok(payment !== undefined);
  const settling = rig.engine.settle(payment, ANSWER, timeLimit());
  await eventually("it is held", () => rig.actions.includes("held"));
  await rig.mineAt(CHEAP);
  await settling;
  assert.deepEqual([(await stateOf(rig.ledger, payment)).state, rig.actions], ["settled", ["held"]]);
});

test("attack: a window that closes within the time to wait is settled before it closes", async () => {
  await using rig = await openRig("wait", { holdMs: 600_000 }, SHARED);
  const validBefore = BigInt(Math.floor(rig.clock.nowMs() / 1_000) + 90);
  const [payment] = await rig.claims(1, validBefore);
  assert.ok(payment !== undefined);
  const settling = rig.engine.settle(payment, ANSWER, timeLimit());
  await eventually("it is held", () => rig.actions.includes("held"));
  // 90 seconds, of which 10 are for settling.
  rig.clock.advance(80_000);
  await settling;
  const { state, evidence } = await stateOf(rig.ledger, payment);
  assert.equal(state, "settled");
  const block = (await devRpc(rig.bed.anvil.url, "eth_getBlockByHash", [evidence?.blockHash, false])) as {
    timestamp: string;
  };
  assert.ok(BigInt(block.timestamp) < validBefore);
});

test("a caller that leaves, or a process that ends, while a payment is held: nothing is sent, and the claim is free", async () => {
  await using rig = await openRig("wait", {}, SHARED);
  const [left, stopped] = await rig.claims(2);
  assert.ok(left !== undefined && stopped !== undefined);
  const leaving = new AbortController();
  const first = rig.engine.settle(left, ANSWER, leaving.signal);
  await eventually("it is held", () => rig.actions.length === 1);
  leaving.abort();
  await assert.rejects(first, { code: "SETTLEMENT_UNAVAILABLE" });
  const second = assert.rejects(rig.engine.settle(stopped, ANSWER, timeLimit()), { code: "SHUTTING_DOWN" });
  await eventually("the other is held", () => rig.actions.length === 2);
  await rig.engine[Symbol.asyncDispose]();
  await second;
  assert.equal(await rig.sent(), 0);
  for (const payment of [left, stopped]) assert.equal(await rig.ledger.release(payment.id, "SHUTTING_DOWN"), true);
});

test("gas is learned from receipts, of one payment and of each in a batch", async () => {
  await using rig = await openRig("settle", { maxBatch: 4 });
  const before = await eventually("the gauges are set", () => rig.gauges.get("alone"));
  const [alone, ...many] = await rig.claims(9);
  await rig.engine.settle(alone ?? assert.fail(), ANSWER, timeLimit());
  const { evidence } = await untilState(rig.ledger, alone ?? assert.fail(), "settled");
  const receipt = (await devRpc(rig.bed.anvil.url, "eth_getTransactionReceipt", [evidence?.transaction])) as {
    gasUsed: string;
  };
  const expected = Math.floor((before * 3 + Number(receipt.gasUsed)) / 4);
  await eventually("it is learned", () => rig.gauges.get("alone") === expected);
  const shared = rig.gauges.get("shared");
  await Promise.all(many.map((payment) => rig.engine.settle(payment, ANSWER, timeLimit())));
  await eventually("a batch is learned", () => rig.gauges.get("shared") !== shared);
  assert.deepEqual(rig.actions, []);
});
