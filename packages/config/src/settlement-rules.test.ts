import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { type Config, configChanges, loadConfig, networkRelayer, relayerKeysByNetwork } from "./index.ts";

const NETWORK = {
  network: "eip155:8453",
  rpcUrls: ["http://127.0.0.1:8545"],
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  name: "USDC",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
};
const OTHER = { ...NETWORK, network: "eip155:1" };
const [A, B, C] = [`0x${"ab".repeat(32)}`, `0x${"cd".repeat(32)}`, `0x${"12".repeat(32)}`] as const;

const folder = mkdtempSync(join(tmpdir(), "turnpike-settlement-"));
after(() => rmSync(folder, { recursive: true }));
let files = 0;
function file(text: string): string {
  const path = join(folder, `file-${files++}`);
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

const configOf = (networks: readonly object[], relayer: object = {}, rest: object = {}): Config =>
  loadConfig({ env: {}, overrides: { payment: { networks, relayer }, ...rest } });

function faults(load: () => unknown): string {
  try {
    load();
  } catch (error) {
    if (isAppError(error, "CONFIG_INVALID")) return error.message;
    throw error;
  }
  return assert.fail("the configuration was accepted");
}

function relayerOf(config: Config, at: number): ReturnType<typeof networkRelayer> {
  return networkRelayer(config, config.payment.networks[at] ?? assert.fail());
}

suite("settlement rules of a network", () => {
  test("without any of its own a network has those of payment.relayer, which are as they were", () => {
    const { keys: _, keysFile: __, ...common } = loadConfig({ env: {} }).payment.relayer;
    assert.deepEqual(relayerOf(configOf([NETWORK]), 0), common);
    const { maxFeePerGasGwei, maxPriorityFeePerGasGwei, gasPerTransfer, maxBatch, minBalanceGwei } = common;
    assert.deepEqual(
      [maxFeePerGasGwei, maxPriorityFeePerGasGwei, gasPerTransfer, maxBatch, minBalanceGwei],
      [5, 0.001, 120_000, 50, 1_000_000],
    );
    assert.equal(common.whenUnprofitable, "settle");
    assert.equal(relayerOf(configOf([NETWORK], { maxFeePerGasGwei: 9 }), 0).maxFeePerGasGwei, 9);
  });

  test("each network has its own, key by key", () => {
    const own = { maxFeePerGasGwei: 0.05, gasPerTransfer: 90_000, minBalanceGwei: 7, coinPriceUsd: "3200.50" };
    const config = configOf([{ ...NETWORK, relayer: own }, OTHER], { maxFeePerGasGwei: 30, maxBatch: 20 });
    const [first, second] = [relayerOf(config, 0), relayerOf(config, 1)];
    assert.deepEqual([first.maxFeePerGasGwei, first.gasPerTransfer, first.maxBatch], [0.05, 90_000, 20]);
    assert.deepEqual([second.maxFeePerGasGwei, second.gasPerTransfer, second.maxBatch], [30, 120_000, 20]);
    assert.deepEqual([first.minBalanceGwei, second.minBalanceGwei], [7, 1_000_000]);
    assert.deepEqual([first.coinPriceUsd, second.coinPriceUsd], ["3200.50", undefined]);
  });

  test("faults name the path: prices that are no text above 0, bounds, and unknown keys", () => {
    const refused = (relayer: object): string => faults(() => configOf([OTHER, { ...NETWORK, relayer }]));
    for (const coinPriceUsd of ["0", "0.00", "00.1", "-1", "1e3", "", "10000000", "1.1234567890123", "3,200", 3200]) {
      const text = refused({ coinPriceUsd });
      assert.match(text, /payment\.networks\[1\]\.relayer\.coinPriceUsd: expected a price in US dollars above 0/);
    }
    assert.match(
      refused({ maxFeePerGasGwei: 0 }),
      /networks\[1\]\.relayer\.maxFeePerGasGwei: expected number 0\.000001/,
    );
    assert.match(refused({ gasPerTransfer: 1 }), /networks\[1\]\.relayer\.gasPerTransfer: expected integer 80000\.\./);
    assert.match(
      refused({ whenUnprofitable: "stop" }),
      /relayer\.whenUnprofitable: expected one of settle, wait, refuse/,
    );
    assert.match(refused({ coinPrice: "1" }), /relayer\.coinPrice: unknown key; did you mean "coinPriceUsd"/);
    assert.match(
      faults(() => configOf([{ ...NETWORK, assetPriceUsd: "0" }])),
      /payment\.networks\[0\]\.assetPriceUsd: expected a price/,
    );
  });

  test("a rule without the coin's price is refused, on each network that it holds for", () => {
    const rule = { whenUnprofitable: "refuse" };
    const text = faults(() => configOf([{ ...NETWORK, relayer: { coinPriceUsd: "2000" } }, OTHER], rule));
    assert.match(text, /payment\.networks\[1\]\.relayer\.coinPriceUsd: missing; whenUnprofitable refuse needs/);
    assert.doesNotMatch(text, /networks\[0\]/);
    assert.ok(
      configOf(
        [
          { ...NETWORK, relayer: { coinPriceUsd: "2000" } },
          { ...OTHER, relayer: { whenUnprofitable: "settle" } },
        ],
        rule,
      ),
    );
  });

  test("a payment is held for no longer than its buyer and its window last", () => {
    const wait = { whenUnprofitable: "wait", coinPriceUsd: "2000" };
    const held = (change: object, network: object = {}, rest: object = {}): string =>
      faults(() => configOf([{ ...NETWORK, ...network, relayer: { ...wait, ...change } }], {}, rest));
    assert.match(
      held({ holdMs: 10_001 }),
      /networks\[0\]\.relayer\.holdMs: 10001 is more than half of .*at most 10000$/m,
    );
    // 20 seconds for the call, 5 to hold, 10 to settle.
    assert.match(
      held({}, { maxTimeoutSeconds: 34 }),
      /networks\[0\]\.maxTimeoutSeconds: 34 leaves no time .*at least 35$/m,
    );
    assert.ok(configOf([{ ...NETWORK, maxTimeoutSeconds: 35, relayer: wait }]));
    assert.ok(configOf([{ ...NETWORK, maxTimeoutSeconds: 34, relayer: { ...wait, whenUnprofitable: "refuse" } }]));
    assert.match(
      faults(() => configOf([{ ...NETWORK, relayer: wait }], { holdMs: 20_000 })),
      /payment\.relayer\.holdMs: 20000 is more than half/,
    );
  });

  test("two tokens of one chain have the same rules, and a price each", () => {
    const asset = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    const relayer = { maxFeePerGasGwei: 1 };
    const two = (change: object) =>
      configOf([
        { ...NETWORK, relayer },
        { ...NETWORK, asset, ...change },
      ]);
    assert.match(
      faults(() => two({})),
      /payment\.networks\[1\]\.relayer: differs from payment\.networks\[0\]\.relayer;/,
    );
    assert.ok(two({ relayer, assetPriceUsd: "1.08" }));
  });
});

suite("relayer keys of a network", () => {
  test("its own file is in place of the common keys, and of those of the environment", () => {
    const config = configOf([{ ...NETWORK, relayer: { keysFile: file(B) } }, OTHER], { keysFile: file(A) });
    const found = relayerKeysByNetwork(config, {}, "gateway");
    assert.deepEqual(
      [...found],
      [
        ["eip155:8453", [B]],
        ["eip155:1", [A]],
      ],
    );
    const withEnv = relayerKeysByNetwork(config, { TURNPIKE_RELAYER_KEYS: C }, "gateway");
    assert.deepEqual([...withEnv.values()], [[B], [C]]);
    const all = relayerKeysByNetwork(config, { TURNPIKE_FACILITATOR_KEYS: C }, "facilitator");
    assert.deepEqual([...all.values()], [[C], [C]], "a facilitator has one set");
  });

  test("a network whose keys are all its own needs no common ones, not even good ones", () => {
    const config = configOf([{ ...NETWORK, relayer: { keysFile: file(B) } }], { keysFile: "/not/here" });
    assert.deepEqual([...relayerKeysByNetwork(config, {}, "gateway").values()], [[B]]);
  });

  test("attack: a key of a network that the facilitator has too is refused from either side, and by path", () => {
    const own = file(B);
    const config = configOf([NETWORK, { ...OTHER, relayer: { keysFile: own } }], { keysFile: file(A) });
    const env = { TURNPIKE_FACILITATOR_KEYS: B };
    assert.match(
      faults(() => relayerKeysByNetwork(config, env, "gateway")),
      /payment\.networks\[1\]\.relayer\.keysFile: has a key of TURNPIKE_FACILITATOR_KEYS too/,
    );
    assert.match(
      faults(() => relayerKeysByNetwork(config, env, "facilitator")),
      /TURNPIKE_FACILITATOR_KEYS: has a key of payment\.networks\[1\]\.relayer\.keysFile too/,
    );
    const facilitator = { relayer: { keysFile: own } };
    assert.match(
      faults(() => configOf([{ ...NETWORK, relayer: { keysFile: own } }], {}, { facilitator })),
      /facilitator\.relayer: has keys of payment\.relayer/,
    );
  });

  test("written keys only on a localnet; a named file is beside its configuration", () => {
    assert.match(
      faults(() => configOf([{ ...NETWORK, relayer: { keys: [A] } }])),
      /payment\.networks\[0\]\.relayer\.keys: keys may not stand in a configuration/,
    );
    const text = JSON.stringify({ payment: { networks: [{ ...NETWORK, relayer: { keysFile: "base.json" } }] } });
    const config = loadConfig({ file: file(text), env: {} });
    assert.equal(config.payment.networks[0]?.relayer.keysFile, join(folder, "base.json"));
  });
});

suite("what a running gateway may change of payment", () => {
  const start = configOf([{ ...NETWORK, relayer: { coinPriceUsd: "2000" } }, OTHER]);

  test("prices, and the rule for sales that cost more than they bring", () => {
    const next = configOf(
      [
        { ...NETWORK, assetPriceUsd: "1.01", relayer: { coinPriceUsd: "2100.5", maxCostPercent: 50 } },
        { ...OTHER, relayer: { coinPriceUsd: "2100.5", whenUnprofitable: "refuse" } },
      ],
      { maxCostPercent: 80 },
    );
    const { changed, fixed } = configChanges(start, next);
    assert.deepEqual(fixed, []);
    assert.deepEqual([...changed].sort(), [
      "payment.networks[0].assetPriceUsd",
      "payment.networks[0].relayer.coinPriceUsd",
      "payment.networks[0].relayer.maxCostPercent",
      "payment.networks[1].relayer.coinPriceUsd",
      "payment.networks[1].relayer.whenUnprofitable",
      "payment.relayer.maxCostPercent",
    ]);
  });

  test("nothing else of a network, and no network more or less", () => {
    const changed = configOf([{ ...NETWORK, payTo: NETWORK.asset, relayer: { maxFeePerGasGwei: 1 } }, OTHER]);
    assert.deepEqual(configChanges(start, changed).fixed, [
      "payment.networks[0].payTo",
      "payment.networks[0].relayer.maxFeePerGasGwei",
    ]);
    assert.deepEqual(configChanges(start, configOf([NETWORK])).fixed, ["payment.networks"]);
    assert.ok(configChanges(start, configOf([OTHER, NETWORK])).fixed.includes("payment.networks[0].network"));
  });
});
