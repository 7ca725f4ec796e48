import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { Address, Labels, MetricSpec } from "@turnpike/base";
import { newPrivateKey } from "@turnpike/client";
import { type Config, loadConfig, relayerKeysByNetwork } from "@turnpike/config";
import { sellerService } from "@turnpike/payment";
import { chainParty } from "@turnpike/testkit/chain";
import { checkRun } from "./check.ts";
import { reportCurve } from "./curve.ts";
import type { LedgerRole } from "./ledger.ts";
import { engineOptions, gatewayEngineOptions, remoteOptions, verifierOptions } from "./networks.ts";

const key = newPrivateKey();

const NETWORK = {
  network: "eip155:84532",
  rpcUrls: ["http://127.0.0.1:1"],
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  name: "USDC",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
};

function configOf(change: Record<string, unknown> = {}): Config {
  const overrides = {
    ledger: { url: "postgres://127.0.0.1:1/x" },
    payment: { networks: [NETWORK] },
    suppliers: { eth: { endpoints: [{ operator: "a", urls: { json_rpc: "http://127.0.0.1:1" } }] } },
    ...change,
  };
  return loadConfig({ env: {}, overrides });
}

const ENV = { TURNPIKE_RELAYER_KEYS: key };

const keysOf = (config: Config) => relayerKeysByNetwork(config, ENV, "gateway");

const faultsOf = (change: Record<string, unknown>, env: Record<string, string> = ENV, role: LedgerRole = "gateway") =>
  checkRun(configOf(change), env, role).faults;

/** The one fault that a change makes. */
function only(change: Record<string, unknown>, env?: Record<string, string>, role?: LedgerRole): string {
  const faults = faultsOf(change, env, role);
  assert.equal(faults.length, 1, faults.join("\n"));
  return faults[0] ?? "";
}

const endpoint = (urls: Record<string, string>) => ({ endpoints: [{ operator: "a", urls }] });

suite("what keeps a configuration from running", () => {
  test("a whole one has no fault", () => {
    assert.deepEqual(faultsOf({}), []);
    assert.deepEqual(faultsOf({}, { TURNPIKE_FACILITATOR_KEYS: newPrivateKey() }, "facilitator"), []);
    const remote = { payment: { networks: [NETWORK], mode: "remote", facilitatorUrl: "http://127.0.0.1:1" } };
    assert.deepEqual(faultsOf(remote, {}), [], "whoever settles through another needs no keys");
  });

  test("a seller's key in a file that cannot be read keeps a gateway in remote mode from starting", () => {
    const payment = { networks: [NETWORK], mode: "remote", facilitatorUrl: "http://127.0.0.1:1" };
    const sellerKeyFile = "/nowhere/seller.key";
    assert.match(only({ payment: { ...payment, sellerKeyFile } }), /^payment\.sellerKeyFile: .* cannot be read/);
    assert.deepEqual(faultsOf({ payment: { networks: [NETWORK], sellerKeyFile } }), [], "no other mode needs it");
    const { sellerKey } = remoteOptions(
      configOf({ payment: { ...payment, sellerKey: "k-1" } }),
      payment.facilitatorUrl,
    );
    assert.equal(sellerKey, "k-1");
  });

  test("confirmations that a facilitator's clients do not wait for are refused for it, and not for a gateway", () => {
    const slow = { payment: { networks: [{ ...NETWORK, confirmations: 45 }], settleWaitMs: 300_000 } };
    const env = { TURNPIKE_FACILITATOR_KEYS: newPrivateKey() };
    assert.match(
      only(slow, env, "facilitator"),
      /^payment\.networks\[0\]\.confirmations: 45 blocks of 2 seconds .*\(60 seconds\); set at most 29$/,
    );
    assert.deepEqual(faultsOf(slow), []);
    const fitting = { payment: { networks: [{ ...NETWORK, confirmations: 29 }], settleWaitMs: 300_000 } };
    assert.deepEqual(faultsOf(fitting, env, "facilitator"), []);
  });

  test("workers without a relayer key each are refused, unless somebody else settles", () => {
    const three = { gateway: { workers: 3 } };
    const two = { TURNPIKE_RELAYER_KEYS: `${key},${newPrivateKey()}` };
    assert.match(
      only(three, two),
      /^gateway\.workers: 3 workers need a relayer key each, and there are 2; .* set gateway\.workers to 2$/,
    );
    assert.match(only(three), /there is 1; /);
    assert.deepEqual(faultsOf({ gateway: { workers: 2 } }, two), []);
    const remote = { ...three, payment: { networks: [NETWORK], mode: "remote", facilitatorUrl: "http://127.0.0.1:1" } };
    assert.deepEqual(faultsOf(remote, {}), []);
  });

  test("a rule of sale names services that are on sale and addresses, and what is refused is a stranger's", () => {
    const own = { name: "Mine", description: "What it answers.", category: "web", families: [] };
    const reads = [{ name: "thing_read", rpcType: "json_rpc", description: "", read: true }];
    const catalogue = {
      overrides: { solana: { paid: false } },
      services: { "my-api": { ...own, operations: reads } },
    };
    const rule = (sellServices: readonly string[]) => ({ catalogue, protocol: { sell: "listed", sellServices } });
    assert.deepEqual(faultsOf(rule(["eth", "my-api"])), []);
    assert.match(
      only(rule(["eth", "no-such"])),
      /^protocol\.sellServices\[1\]: the catalogue has no no-such; .*define it/,
    );
    assert.match(only(rule(["solana"])), /^protocol\.sellServices\[0\]: solana has paid: false;/);
    const refuse = (id: string) => ({ catalogue, protocol: { refuseServices: [id] } });
    assert.deepEqual(faultsOf(refuse("their-api")), []);
    assert.match(
      only(refuse("solana")),
      /^protocol\.refuseServices\[0\]: .* set catalogue\.overrides\.solana\.enabled/,
    );
    assert.match(only(refuse("my-api")), /remove catalogue\.services\.my-api instead$/);
    const owners = (address: string) => ({
      protocol: { nodeUrl: "http://127.0.0.1:1", gatewayKeyFile: "x", sell: "listed", sellOwners: [address] },
    });
    const { address } = chainParty("owner");
    assert.deepEqual(faultsOf(owners(address)), []);
    const mistyped = `${address.slice(0, -1)}${address.endsWith("q") ? "p" : "q"}`;
    assert.match(only(owners(mistyped)), /^protocol\.sellOwners\[0\]: no address, its checksum/);
    const write = { ...own, operations: [{ name: "thing_read", rpcType: "json_rpc", description: "" }] };
    assert.match(
      only({ catalogue: { services: { "my-api": write } } }),
      /my-api\.operations\[0\]\.name: thing_read is not known as a read; .*read: true/,
    );
  });

  test("one that sells nothing needs no ledger, no network and no key, and has only what is free", () => {
    const free = { payment: { mode: "none" }, ledger: {} };
    assert.deepEqual(faultsOf(free, {}), []);
    assert.deepEqual(faultsOf({ ...free, gateway: { workers: 3 } }, {}), []);
    const { services } = checkRun(configOf(free), {}, "gateway").catalogue;
    assert.ok(services.size > 60);
    for (const { id, paid, free: isFree } of services.values()) assert.deepEqual([paid, isFree], [false, true], id);

    assert.match(
      only({ ...free, payment: { mode: "none", networks: [NETWORK] } }),
      /^payment\.networks: .*sells nothing/,
    );
    const search = { suppliers: { search: endpoint({ rest: "http://127.0.0.1:1" }) } };
    assert.match(only({ ...free, ...search }), /^suppliers\.search: this service is only sold, .*; remove it, or/);
    const own = { name: "Mine", description: "d", category: "blockchain", families: ["evm"] };
    const mine = { suppliers: { mine: endpoint({ json_rpc: "http://127.0.0.1:1" }) } };
    const soldOnly = { ...free, ...mine, catalogue: { services: { mine: own } } };
    assert.match(only(soldOnly), /^suppliers\.mine: .*free: true in catalogue\.services\.mine$/);
    assert.deepEqual(faultsOf({ ...soldOnly, catalogue: { services: { mine: { ...own, free: true } } } }, {}), []);
    assert.match(only({ payment: { networks: [] } }), /^payment\.networks: empty; .*mode to none/);
    assert.match(faultsOf(free, ENV, "facilitator").join("\n"), /^payment\.networks: empty/);
  });

  test("each is named by its path", () => {
    assert.match(only({ ledger: {} }), /^ledger\.url: missing; set it/);
    assert.match(only({}, {}), /^payment\.relayer\.keysFile: there is no key .*turnpike keys new/);
    assert.match(only({}, {}, "facilitator"), /^facilitator\.relayer\.keysFile: there is no key/);
    assert.match(
      only({ suppliers: { ethereum: endpoint({ json_rpc: "http://x" }) } }),
      /^suppliers\.ethereum: .*no such/,
    );
    const off = { overrides: { eth: { enabled: false } } };
    assert.match(only({ catalogue: off }), /^suppliers\.eth: .*switched off/);
    assert.match(only({ catalogue: { overrides: { nosuch: {} } } }), /^catalogue\.overrides\.nosuch: /);
    const coarse = { payment: { networks: [NETWORK, { ...NETWORK, network: "eip155:1", decimals: 2 }] } };
    assert.match(
      only(coarse),
      /^payment\.networks\[1\]\.decimals: .*2 decimal places cannot pay 0\.005000 \(.* more\)/,
    );
  });

  test("suppliers whose URLs nothing of the service speaks to", () => {
    const wrong = only({ suppliers: { eth: endpoint({ comet_bft: "http://x" }) } });
    assert.match(wrong, /^suppliers\.eth\.endpoints: none has a URL .*urls\.json_rpc/);
    assert.match(only({ suppliers: { "document-digest": endpoint({ json_rpc: "http://x" }) } }), /set urls\.rest/);
    assert.match(only({ suppliers: { eth: endpoint({ json_rpc: "ws://x" }) } }), /urls\.json_rpc: expected an http/);
    assert.deepEqual(faultsOf({ suppliers: { eth: endpoint({ comet_bft: "http://x", json_rpc: "http://x" }) } }), []);
  });

  test("all of them at once, not the first alone", () => {
    const suppliers = { one: endpoint({ rest: "http://x" }), two: endpoint({ rest: "http://x" }) };
    const faults = faultsOf({ payment: { networks: [] }, ledger: {}, suppliers }, {});
    assert.equal(faults.length, 5, faults.join("\n"));
    for (const path of [/^payment\.networks: /, /^ledger\.url: /, /^payment\.relayer/, /\.one: /, /\.two: /]) {
      assert.ok(
        faults.some((fault) => path.test(fault)),
        String(path),
      );
    }
  });

  test("a key that both roles have, wherever they have it from", () => {
    const upper = key.toUpperCase().replace("0X", "0x");
    const env = { TURNPIKE_RELAYER_KEYS: key, TURNPIKE_FACILITATOR_KEYS: `${newPrivateKey()},${upper}` };
    assert.match(only({}, env), /^TURNPIKE_RELAYER_KEYS: has a key of TURNPIKE_FACILITATOR_KEYS too/);
    assert.match(only({}, env, "facilitator"), /^TURNPIKE_FACILITATOR_KEYS: has a key of TURNPIKE_RELAYER_KEYS too/);
  });
});

suite("what the parts are told of the networks", () => {
  test("verifier and engine allow a wallet the same gas", () => {
    const config = configOf({
      payment: { networks: [NETWORK], relayer: { gasPerWallet: 333_333, gasPerDeployment: 1_111_111 } },
    });
    const [verifier] = verifierOptions(config).networks;
    const [engine] = engineOptions(config, keysOf(config), "x").networks;
    assert.deepEqual([verifier?.walletGas, verifier?.deploymentGas], [333_333, 1_111_111]);
    assert.deepEqual([engine?.gasPerWallet, engine?.gasPerDeployment], [333_333n, 1_111_111n]);
  });

  test("each network has its own caps, tip, gas, batches, least balance and keys; another's are as they were", () => {
    const [own, common] = [newPrivateKey(), newPrivateKey()];
    const relayer = {
      maxFeePerGasGwei: 0.05,
      maxPriorityFeePerGasGwei: 0.002,
      minBalanceGwei: 3,
      gasPerTransfer: 90_000,
      gasPerWallet: 300_000,
      maxBatch: 7,
      batchWindowMs: 9,
      bumpAfterMs: 600,
    };
    const config = configOf({
      payment: {
        networks: [
          { ...NETWORK, relayer },
          { ...NETWORK, network: "eip155:1" },
        ],
      },
    });
    const keys = new Map([
      ["eip155:84532", [own]],
      ["eip155:1", [common]],
    ]);
    const [changed, plain] = engineOptions(config, keys, "x").networks;
    const seen = (net: typeof plain) => [
      net?.maxFeePerGasWei,
      net?.priorityFeeWei,
      net?.minRelayerBalanceWei,
      net?.gasPerTransfer,
      net?.gasPerWallet,
      net?.maxBatch,
      net?.batchWindowMs,
      net?.bumpAfterMs,
      net?.relayerKeys.map((key) => `0x${Buffer.from(key).toString("hex")}`),
    ];
    assert.deepEqual(seen(changed), [50_000_000n, 2_000_000n, 3_000_000_000n, 90_000n, 300_000n, 7, 9, 600, [own]]);
    const asBefore = [5_000_000_000n, 1_000_000n, 10n ** 15n, 120_000n, 400_000n, 50, 100, 10_000, [common]];
    assert.deepEqual(seen(plain), asBefore);
    const [first, second] = verifierOptions(config, keys).networks;
    assert.deepEqual([first?.priorityFeeWei, first?.walletGas, first?.relayers?.length], [2_000_000n, 300_000, 1]);
    assert.deepEqual([second?.priorityFeeWei, second?.walletGas], [1_000_000n, 400_000]);
    assert.notDeepEqual(first?.relayers, second?.relayers);
  });

  test("a network without a key is named", () => {
    const networks = [NETWORK, { ...NETWORK, network: "eip155:1" }];
    const keys = new Map([["eip155:84532", [newPrivateKey()] as const]]);
    assert.throws(() => engineOptions(configOf({ payment: { networks } }), keys, "x"), /no key .* on eip155:1;/);
  });

  test("a third party's sale brings what its seller pays, an operator's own its amount", () => {
    const [third, listed] = [`0x${"03".repeat(20)}`, `0x${"04".repeat(20)}`] as const;
    const shop = { name: "shop", keySha256: "a".repeat(64), priceUsd: "0.002" };
    const config = configOf({ facilitator: { sellers: [shop], payToAllowed: [listed] } });
    const feeUsd = engineOptions(config, keysOf(config), "x", () => config).networks[0]?.profit?.()?.feeUsd;
    assert.ok(feeUsd !== undefined);
    assert.equal(feeUsd({ payTo: NETWORK.payTo as Address }), undefined);
    assert.equal(feeUsd({ payTo: listed }), undefined);
    assert.equal(feeUsd({ payTo: third }), 0n);
    assert.equal(feeUsd({ payTo: third, serviceId: sellerService("shop") }), 2_000_000_000n);
    assert.equal(feeUsd({ payTo: third, serviceId: sellerService("other") }), 0n);
  });

  test("the profit rule is that of the configuration in effect, with prices as they are written", () => {
    const of = (coinPriceUsd?: string): Config =>
      configOf({
        payment: { networks: [{ ...NETWORK, relayer: coinPriceUsd === undefined ? {} : { coinPriceUsd } }] },
      });
    let current = of("3200.000000000001");
    const [engine] = engineOptions(current, keysOf(current), "x", () => current).networks;
    const price = (): bigint | undefined => engine?.profit?.()?.coinPriceUsd;
    assert.equal(price(), 3_200_000_000_000_001n);
    assert.equal(engine?.profit?.(), engine?.profit?.(), "made once for each configuration");
    current = of("0.5");
    assert.equal(price(), 500_000_000_000n);
    current = of();
    assert.equal(price(), undefined);
    const asset = engine?.profit?.()?.assets.get(NETWORK.asset.toLowerCase());
    assert.deepEqual(asset, { decimals: 6, priceUsd: 10n ** 12n });
    assert.equal(engine?.profit?.()?.whenUnprofitable, "settle");
  });

  test("a gateway watches its own receivers, by token; a facilitator settles for others and watches none", () => {
    const other = { ...NETWORK, asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" };
    const config = configOf({ payment: { networks: [NETWORK, other] } });
    const both = config.payment.networks.map(({ asset, payTo }) => ({ asset, payTo }));
    const receivers = ({ networks }: ReturnType<typeof engineOptions>) => networks.map((network) => network.receivers);
    assert.deepEqual(receivers(gatewayEngineOptions(config, keysOf(config), "x")), [both]);
    assert.deepEqual(receivers(engineOptions(config, keysOf(config), "x")), [undefined]);
    assert.deepEqual(
      remoteOptions(config, "http://127.0.0.1:1").networks.map((network) => network.receivers),
      [both],
    );
  });

  test("each token of a chain has its own maxTimeoutSeconds", () => {
    const other = { ...NETWORK, asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", maxTimeoutSeconds: 120 };
    const { networks } = remoteOptions(configOf({ payment: { networks: [NETWORK, other] } }), "http://127.0.0.1:1");
    assert.deepEqual(
      networks[0]?.assets.map(({ maxTimeoutSeconds }) => maxTimeoutSeconds),
      [60, 120],
    );
  });
});

test("a process without the native curve says so in its log and its metrics", () => {
  const warned: string[] = [];
  const gauges: [string, number][] = [];
  const log = {
    debug() {},
    info() {},
    error() {},
    warn: (_fields: unknown, message: string) => void warned.push(message),
    child: () => log,
  };
  const metrics = {
    count() {},
    observe() {},
    set: (spec: MetricSpec, value: number, _labels?: Labels) => void gauges.push([spec.name, value]),
  };
  reportCurve({ log, metrics }, "native");
  assert.equal(warned.length, 0);
  reportCurve({ log, metrics }, "pure");
  assert.match(warned[0] ?? "", /native secp256k1 is not there/);
  assert.deepEqual(gauges, [
    ["turnpike_secp256k1_native", 1],
    ["turnpike_secp256k1_native", 0],
  ]);
});
