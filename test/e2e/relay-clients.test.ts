import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type Anvil, deployTestToken, devRpc, setTokenBalance, startAnvil, USDC_ADDRESS } from "@turnpike/localnet";
import { FetchRequest, JsonRpcProvider, Wallet } from "ethers";
import { createPublicClient, createWalletClient, erc20Abi, http, parseEther } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { foundry } from "viem/chains";
import { type RelayRig, rpc, rpcAt, send, startRelay } from "./relay-rig.ts";

/** The first account of anvil. */
const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const CHAIN = { ...foundry, id: 84532 };

suite("EVM clients, unmodified, through the free relay against anvil", () => {
  let anvil: Anvil;
  let rig: RelayRig;

  before(async () => {
    anvil = await startAnvil({});
    await deployTestToken(anvil.url, { holders: [] });
    rig = await startRelay({ eth: rpcAt(anvil.url) }, { chainId: 84532, timeoutMs: 5_000 });
  });
  after(async () => {
    await rig?.[Symbol.asyncDispose]();
    await anvil?.[Symbol.asyncDispose]();
  });

  /** The three handles of the door, as a URL and headers. */
  const handles = (): readonly (readonly [name: string, url: string, headers: Record<string, string>])[] => [
    ["path", `${rig.url}/relay/eth`, {}],
    ["Target-Service-Id", `${rig.url}/v1`, { "Target-Service-Id": "eth" }],
    ["Host", rig.url, { host: "eth.localhost" }],
  ];

  const fetchByHost: typeof fetch = async (_url, init) => {
    const { status, headers, text } = await send(rig, typeof init?.body === "string" ? init.body : "");
    return new Response(text, { status, headers: { "content-type": String(headers["content-type"]) } });
  };

  test("viem: every read is what the chain says, by path, by header and by host; batched too", async () => {
    const direct = createPublicClient({ transport: http(anvil.url), chain: CHAIN });
    const holder = privateKeyToAccount(KEY).address;
    await setTokenBalance(anvil.url, { address: holder, units: 77n });
    for (const [name, url, headers] of handles()) {
      for (const batch of [false, true]) {
        // Node's fetch takes no Host from its caller, and this name is known to no resolver.
        const byHost = name === "Host" ? { fetchFn: fetchByHost } : {};
        const transport = http(url, { batch, fetchOptions: { headers }, ...byHost });
        const client = createPublicClient({ chain: CHAIN, transport });
        const block = await client.getBlock({ includeTransactions: true });
        assert.deepEqual(block, await direct.getBlock({ blockHash: block.hash, includeTransactions: true }), name);
        const units = { address: USDC_ADDRESS, abi: erc20Abi, functionName: "balanceOf", args: [holder] } as const;
        const reads = await Promise.all([
          client.getChainId(),
          client.getBalance({ address: holder }),
          client.getCode({ address: USDC_ADDRESS }),
          client.readContract(units),
          client.getLogs({ fromBlock: 0n, toBlock: block.number }),
          client.estimateGas({ account: holder, to: holder, value: 1n }),
        ]);
        const wanted = await Promise.all([
          direct.getChainId(),
          direct.getBalance({ address: holder }),
          direct.getCode({ address: USDC_ADDRESS }),
          direct.readContract(units),
          direct.getLogs({ fromBlock: 0n, toBlock: block.number }),
          direct.estimateGas({ account: holder, to: holder, value: 1n }),
        ]);
        assert.deepEqual(reads, wanted, name);
      }
    }
  });

  test("viem: a signed transaction goes out once and is mined; a revert and filters come through", async () => {
    const url = `${rig.url}/relay/eth`;
    const account = privateKeyToAccount(KEY);
    const wallet = createWalletClient({ account, chain: CHAIN, transport: http(url) });
    const client = createPublicClient({ chain: CHAIN, transport: http(url), pollingInterval: 20 });
    const to = "0x00000000000000000000000000000000000000aa";
    const filter = await client.createBlockFilter();
    const hash = await wallet.sendTransaction({ to, value: parseEther("1") });
    assert.equal((await client.waitForTransactionReceipt({ hash })).status, "success");
    assert.equal(await client.getBalance({ address: to }), parseEther("1"));
    assert.ok((await client.getFilterChanges({ filter })).length > 0);
    assert.equal(await client.uninstallFilter({ filter }), true);
    const unpaid = { address: USDC_ADDRESS, abi: erc20Abi, functionName: "transfer", args: [to, 10n ** 30n] } as const;
    await assert.rejects(client.simulateContract({ ...unpaid, account: to }), /revert/i);
  });

  test("ethers: reads, batches of its own making, and a transfer, by all three handles", async () => {
    for (const [name, url, headers] of handles()) {
      const fetching = new FetchRequest(url);
      for (const [key, value] of Object.entries(headers)) fetching.setHeader(key, value);
      const provider = new JsonRpcProvider(fetching, undefined, { pollingInterval: 20 });
      const numbers = await Promise.all(Array.from({ length: 20 }, () => provider.getBlockNumber()));
      assert.ok(
        numbers.every((number) => Number.isInteger(number)),
        name,
      );
      assert.equal(Number((await provider.getNetwork()).chainId), 84532);
      const [fee, code] = await Promise.all([provider.getFeeData(), provider.getCode(USDC_ADDRESS)]);
      assert.ok(fee.gasPrice !== null && fee.gasPrice > 0n && code.length > 10);
      const wallet = new Wallet(KEY, provider);
      const sent = await wallet.sendTransaction({ to: "0x00000000000000000000000000000000000000bb", value: 1n });
      assert.equal((await sent.wait(1, 10_000))?.status, 1, name);
      provider.destroy();
    }
  });

  test("what would forge money or turn the node is not forwarded: by any spelling, alone or in a batch", async () => {
    const victim = "0x00000000000000000000000000000000000000cc";
    const set = (method: string): string => rpc("1", method, `["${victim}","0xffffff"]`);
    const height = await devRpc(anvil.url, "eth_blockNumber", []);
    const methods = [
      "anvil_setBalance",
      "hardhat_setBalance",
      "tenderly_setBalance",
      "ANVIL_setBalance",
      " anvil_setBalance",
      "anvil_setBalance\\u0000",
      "\\u0061nvil_setBalance",
      "anvil\\u200b_setBalance",
      "ａnvil_setBalance",
      "evm_mine",
      "evm_snapshot",
      "eth_sendTransaction",
      "eth_sendUnsignedTransaction",
      "eth_sign",
      "eth_signTypedData_v4",
      "personal_sign",
      "admin_nodeInfo",
      "miner_start",
      "engine_newPayloadV4",
      "debug_setHead",
      "wallet_sendTransaction",
    ];
    for (const method of methods) {
      const got = await send(rig, set(method));
      assert.equal(got.status, 200);
      assert.match(got.text, /^\{"jsonrpc":"2\.0","id":1,"error":\{"code":-32601,/, method);
      assert.equal((await send(rig, rpc(undefined, method, `["${victim}","0x1"]`))).status, 204);
    }
    const batch = await send(rig, `[${methods.map(set).join(",")},${rpc("2", "eth_chainId")}]`);
    const items = JSON.parse(batch.text) as { error?: { code: number }; result?: string }[];
    assert.equal(items.length, methods.length + 1);
    assert.ok(items.slice(0, -1).every(({ error }) => error?.code === -32601));
    assert.equal(items.at(-1)?.result, "0x14a34");
    assert.equal(await devRpc(anvil.url, "eth_getBalance", [victim, "latest"]), "0x0");
    assert.equal(await devRpc(anvil.url, "eth_blockNumber", []), height);
    const accounts = await send(rig, rpc("1", "eth_accounts"));
    assert.match(accounts.text, /"result":\["0x/);
  });
});
