import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import {
  type Anvil,
  deployTestToken,
  devRpc,
  LOCAL_CHAIN_ID,
  setTokenBalance,
  startAnvil,
  USDC_ADDRESS,
} from "@turnpike/localnet";
import { createSubscriptions, type Subscriptions } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { Contract, Web3, WebSocketProvider } from "web3";
import { outcomeOf } from "../support/replay-node.ts";
import { type RelayRig, rpcAt, startRelay } from "./relay-rig.ts";

/** The first account of anvil. */
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const TO = "0x00000000000000000000000000000000000000aa";
const ABI = [
  {
    type: "function",
    name: "balanceOf",
    stateMutability: "view",
    inputs: [{ name: "account", type: "address" }],
    outputs: [{ name: "", type: "uint256" }],
  },
  {
    type: "function",
    name: "transfer",
    stateMutability: "nonpayable",
    inputs: [
      { name: "to", type: "address" },
      { name: "value", type: "uint256" },
    ],
    outputs: [{ name: "", type: "bool" }],
  },
] as const;

suite("web3.js, unmodified, through the free relay against anvil", () => {
  let anvil: Anvil;
  let subscriptions: Subscriptions;
  let rig: RelayRig;
  const holder = new Web3().eth.accounts.privateKeyToAccount(KEY);

  before(async () => {
    anvil = await startAnvil({});
    await deployTestToken(anvil.url, { holders: [] });
    await setTokenBalance(anvil.url, { address: holder.address as `0x${string}`, units: 77n });
    const catalogue = createCatalogue({ overrides: { eth: { evmChainId: LOCAL_CHAIN_ID } } });
    subscriptions = createSubscriptions(
      {
        suppliers: { eth: [{ operator: "op0", url: anvil.url.replace("http", "ws") }] },
      },
      {
        catalogue: catalogue.services,
        clock: systemClock,
        log: silentLog,
        metrics: new PrometheusMetrics({ processMetrics: false }),
        random: Math.random,
      },
    );
    const bend = { chainId: LOCAL_CHAIN_ID, timeoutMs: 5_000, modules: { subscriptions } };
    rig = await startRelay({ eth: rpcAt(anvil.url) }, bend);
  });
  after(async () => {
    await rig?.[Symbol.asyncDispose]();
    await subscriptions?.[Symbol.asyncDispose]();
    await anvil?.[Symbol.asyncDispose]();
  });

  /** What web3.js makes of the same reads, wherever it reads. */
  async function reads(web3: Web3, height: bigint): Promise<unknown> {
    const { eth } = web3;
    const token = new Contract(ABI, USDC_ADDRESS, web3);
    return Promise.all([
      eth.getChainId(),
      eth.getBalance(holder.address),
      eth.getBlock(height, true),
      eth.getCode(USDC_ADDRESS),
      eth.getPastLogs({ fromBlock: 0n, toBlock: height }),
      eth.getTransactionCount(holder.address),
      eth.getTransactionReceipt(`0x${"77".repeat(32)}`).catch((error: unknown) => outcomeOf(error)),
      token.methods.balanceOf(holder.address).call(),
      token.methods
        .transfer(TO, 10n ** 30n)
        .call({ from: TO })
        .catch((error: unknown) => outcomeOf(error)),
    ]);
  }

  test("over HTTP: a transfer that it signs, and every read as the node gives it, a revert and logs too", async () => {
    const web3 = new Web3(`${rig.url}/relay/eth`);
    web3.eth.accounts.wallet.add(KEY);
    const token = new Contract(ABI, USDC_ADDRESS, web3);
    const sent = await token.methods.transfer(TO, 7n).send({ from: holder.address });
    assert.equal(sent.status, 1n);
    assert.equal(await token.methods.balanceOf(TO).call(), 7n);
    const height = await web3.eth.getBlockNumber();
    assert.equal(height, BigInt(String(await devRpc(anvil.url, "eth_blockNumber", []))));
    const got = await reads(web3, height);
    assert.deepEqual(got, await reads(new Web3(anvil.url), height));
    const [chainId, , , , logs, , , units, revert] = got as readonly unknown[];
    assert.deepEqual([chainId, units], [BigInt(LOCAL_CHAIN_ID), 70n]);
    assert.equal((logs as unknown[]).length, 1);
    assert.match(JSON.stringify(revert), /revert/i);
  });

  test("over HTTP: its batch, and its block filter", async () => {
    const web3 = new Web3(`${rig.url}/relay/eth`);
    const batch = new web3.BatchRequest();
    const asked = [
      batch.add({ method: "eth_chainId", params: [] }),
      batch.add({ method: "eth_getBalance", params: [TO, "latest"] }),
      batch.add({ method: "eth_getBlockByNumber", params: ["0x0", false] }),
    ];
    const answers = await batch.execute({ timeout: 60_000 });
    assert.deepEqual(
      answers.map(({ result }) => (typeof result === "string" ? result : "block")),
      [`0x${LOCAL_CHAIN_ID.toString(16)}`, "0x0", "block"],
    );
    const [, balance] = await Promise.all(asked);
    assert.equal(balance, "0x0");

    const filter = String(await devRpcOf(web3, "eth_newBlockFilter"));
    await devRpc(anvil.url, "anvil_mine", ["0x2"]);
    assert.equal(((await devRpcOf(web3, "eth_getFilterChanges", [filter])) as unknown[]).length, 2);
    assert.deepEqual(await devRpcOf(web3, "eth_getFilterChanges", [filter]), []);
    assert.equal(await devRpcOf(web3, "eth_uninstallFilter", [filter]), true);
  });

  test("over HTTP: what would turn the node is refused in its own error class", async () => {
    const web3 = new Web3(`${rig.url}/relay/eth`);
    await assert.rejects(devRpcOf(web3, "anvil_mine", []), (error: unknown) => {
      assert.match(JSON.stringify(outcomeOf(error)), /-32601|not offered/);
      return true;
    });
  });

  test("over WebSocket: the same reads, a transfer, and new heads as they are mined", async () => {
    const provider = new WebSocketProvider(`${rig.url.replace("http", "ws")}/relay/eth`);
    const web3 = new Web3(provider);
    try {
      const heads: bigint[] = [];
      const { promise: three, resolve, reject } = Promise.withResolvers<void>();
      const subscription = await web3.eth.subscribe("newHeads");
      subscription.on("data", ({ number }) => {
        heads.push(BigInt(number ?? -1));
        if (heads.length === 3) resolve();
      });
      subscription.on("error", reject);
      const from = await web3.eth.getBlockNumber();
      for (let at = 0; at < 3; at++) await devRpc(anvil.url, "anvil_mine", ["0x1"]);
      await three;
      assert.deepEqual(heads, [from + 1n, from + 2n, from + 3n]);
      await subscription.unsubscribe();

      web3.eth.accounts.wallet.add(KEY);
      const sent = await web3.eth.sendTransaction({ from: holder.address, to: TO, value: 1n });
      assert.equal(sent.status, 1n);
      const height = await web3.eth.getBlockNumber();
      assert.deepEqual(await reads(web3, height), await reads(new Web3(anvil.url), height));
    } finally {
      provider.disconnect();
    }
  });
});

/** One call by web3's own request manager, for what it has no function for. */
async function devRpcOf(web3: Web3, method: string, params: readonly unknown[] = []): Promise<unknown> {
  return web3.requestManager.send({ method, params: [...params] } as never);
}
