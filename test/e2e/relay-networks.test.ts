import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { StaticEndpoint } from "@turnpike/relay";
import { outcomeOf, type ReplayNode, readDocumented, startReplayNode } from "../support/replay-node.ts";
import { type RelayRig, startRelay } from "./relay-rig.ts";

/** A network's stand-in and the relay before it. */
interface Ground extends AsyncDisposable {
  readonly node: ReplayNode;
  readonly rig: RelayRig;
  /** What a client makes of the same questions through the relay and at the node itself; they must be the same. */
  same<T>(reads: (url: string) => Promise<T>): Promise<T>;
}

async function startGround(network: string, rpcTypes: readonly ("json_rpc" | "rest")[]): Promise<Ground> {
  const node = await startReplayNode(readDocumented(network));
  const urls = Object.fromEntries(rpcTypes.map((type) => [type, node.url]));
  const endpoints: readonly StaticEndpoint[] = [{ operator: "documented", urls }];
  const rig = await startRelay({ [network]: endpoints });
  // Probes of the back-end, which come again when they want.
  const probes = new Set(node.unknown);
  node.forget();
  return {
    node,
    rig,
    async same(reads) {
      const got = await reads(`${rig.url}/relay/${network}`);
      assert.deepEqual(
        node.unknown.filter((question) => !probes.has(question)),
        [],
      );
      assert.ok(node.asked.length > 0);
      assert.deepEqual(got, await reads(node.url));
      return got;
    },
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]();
      await node[Symbol.asyncDispose]();
    },
  };
}

const caught = (error: unknown): unknown => outcomeOf(error);

suite("Clients of other networks, unmodified, through the free relay against documented answers", () => {
  test("@solana/kit: slot, accounts, balance, block; numbers beyond 2^53; errors with their own codes", async () => {
    const { address, createSolanaRpc, isSolanaError } = await import("@solana/kit");
    await using ground = await startGround("solana", ["json_rpc"]);
    const account = address("vines1vzrYbzLMRdu58ou5XTby4qAqVRLmqo36NKPTg");
    const other = address("4fYNw3dojWmQ4dXtSGE9epjRGy9pFSx62YypT7avPYvA");
    const none = address("11111111111111111111111111111112");
    const how = {
      encoding: "json",
      maxSupportedTransactionVersion: 0,
      transactionDetails: "full",
      rewards: false,
    } as const;
    const got = await ground.same(async (url) => {
      const rpc = createSolanaRpc(url);
      return {
        // At once: each comes back to its own question.
        ...(await Promise.all([rpc.getSlot().send(), rpc.getGenesisHash().send(), rpc.getBalance(account).send()]).then(
          ([slot, genesis, balance]) => ({ slot, genesis, balance: balance.value }),
        )),
        account: (await rpc.getAccountInfo(account, { encoding: "base58" }).send()).value,
        several: (await rpc.getMultipleAccounts([account, other], { encoding: "base58" }).send()).value,
        none: (await rpc.getAccountInfo(none, { encoding: "base58" }).send()).value,
        block: await rpc.getBlock(430n, how).send(),
      };
    });
    assert.deepEqual(
      [got.slot, got.genesis, got.balance, got.none],
      [341_197_053n, "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", 88_849_814_690_250n, null],
    );
    assert.equal((got.account as { rentEpoch?: bigint } | null)?.rentEpoch, 18_446_744_073_709_551_615n);
    assert.equal(got.several.length, 2);
    // A slash at the end, and a key for another provider: both are this network's root.
    const odd = createSolanaRpc(`${ground.rig.url}/relay/solana/?api-key=mine`);
    assert.equal(await odd.getSlot().send(), got.slot);
    assert.equal(got.block?.blockhash, "3Eq21vXNB5s86c62bVuUfTeaMif1N2kUqRPBmGRJhyTA");
    for (const [wrong, code] of [
      [(url: string) => createSolanaRpc(url).getBlock(431n, how).send(), -32007],
      [
        (url: string) =>
          createSolanaRpc(url)
            .getBalance("abc" as typeof account)
            .send(),
        -32602,
      ],
    ] as const) {
      const failure = await ground.same((url) =>
        wrong(url).then(
          () => undefined,
          (error: unknown) => {
            assert.ok(isSolanaError(error), String(error));
            return { code: error.context.__code, message: error.message };
          },
        ),
      );
      assert.equal(failure?.code, code);
    }
  });

  test("near-api-js: status, block, account, contract state, gas price; errors in its own classes", async () => {
    const { JsonRpcProvider } = await import("near-api-js");
    await using ground = await startGround("near", ["json_rpc"]);
    const finality = { finality: "final" } as const;
    const got = await ground.same(async (url) => {
      const provider = new JsonRpcProvider({ url });
      return {
        status: await provider.viewNodeStatus(),
        block: await provider.viewBlock({ blockId: 187_310_138 }),
        account: await provider.viewAccount({
          accountId: "account.rpc-examples.testnet",
          blockQuery: finality,
        }),
        state: await provider.viewContractState({
          contractId: "contract.rpc-examples.testnet",
          prefix: "",
          blockQuery: finality,
        }),
        gas: await provider.viewGasPrice(),
        unknownAccount: await provider
          .viewAccount({ accountId: "nosuch.rpc-examples.testnet", blockQuery: finality })
          .catch(caught),
        unknownBlock: await provider.viewBlock({ blockId: 1 }).catch(caught),
      };
    });
    assert.equal(got.status.sync_info.latest_block_height, 187_456_272);
    assert.equal(got.block.header.hash, "6RWmTYhXCzjMjoY3Mz1rfFcnBm8E6XeDDbFEPUA4sv1w");
    assert.equal(got.gas.gas_price, "100000000");
    assert.match(JSON.stringify(got.unknownAccount, bigText), /nosuch\.rpc-examples\.testnet/);
    assert.match(JSON.stringify(got.unknownBlock, bigText), /block/i);
    assert.notDeepEqual(got.unknownAccount, got.unknownBlock);
  });

  test("@mysten/sui: chain, checkpoints, balance, coin; errors as the node gives them", async () => {
    const { SuiJsonRpcClient } = await import("@mysten/sui/jsonRpc");
    await using ground = await startGround("sui", ["json_rpc"]);
    const coinType = "0x168da5bf1f48dafc111b0a488fa454aca95e0b5e::usdc::USDC";
    const owner = "0x51ceab2edc89f74730e683ebee65578cb3bc9237ba6fca019438a9737cf156ae";
    const got = await ground.same(async (url) => {
      const client = new SuiJsonRpcClient({ url, network: "mainnet" });
      return {
        chain: await client.getChainIdentifier(),
        newest: await client.getLatestCheckpointSequenceNumber(),
        checkpoint: await client.getCheckpoint({ id: "1000" }),
        balance: await client.getBalance({ owner, coinType }),
        coin: await client.getCoinMetadata({ coinType }),
        unknown: await client
          .getTransactionBlock({ digest: "Hay2tj3GcDYcE3AMHrej5WDsHGPVAYsegcubixLUvXUF" })
          .catch(caught),
        wrong: await client.getCheckpoint({ id: "abc" }).catch(caught),
      };
    });
    assert.deepEqual([got.chain, got.newest, got.balance.totalBalance], ["35834a8a", "507021", "15"]);
    assert.equal(got.checkpoint.digest, "G6Dtzr1ZSfHFhotGsTE3cLENa7L1ooe1BBvknAUsARbV");
    assert.match(JSON.stringify(got.unknown), /-32602.*|Could not find the referenced transaction/);
    assert.match(JSON.stringify(got.wrong), /Invalid params/);
  });

  test("tronweb: its REST paths by GET and POST, a contract call, and errors that the chain states", async () => {
    const { TronWeb } = await import("tronweb");
    await using ground = await startGround("tron", ["json_rpc", "rest"]);
    const me = TronWeb.address.fromHex("41dd791d6b49e190062d650e6a23c575510d35f2f9");
    const token = TronWeb.address.fromHex("41eca9bc828a3005b9a3b909f2cc5c2a54794de05f");
    const txId = "01b4cde4197b9d1a1ff09ef5d2b1d939d3ec2401b3f002ebd0802c0f30a6e4ca";
    const got = await ground.same(async (url) => {
      const web = new TronWeb({ fullHost: url });
      const freeze = { owner_address: TronWeb.address.toHex(me), frozen_balance: 1_000_000_000, frozen_duration: 3 };
      return {
        newest: await web.trx.getCurrentBlock(),
        first: await web.trx.getBlockByNumber(0),
        confirmed: await web.trx.getAccount(me),
        account: await web.trx.getUnconfirmedAccount(me),
        balance: await web.trx.getBalance(me),
        transaction: await web.trx.getTransaction(txId),
        info: await web.trx.getTransactionInfo(txId),
        call: await web.transactionBuilder.triggerConstantContract(
          token,
          "balanceOf(address)",
          {},
          [{ type: "address", value: me }],
          me,
        ),
        unknown: await web.trx.getTransaction("00".repeat(32)).catch(caught),
        wrongHex: await web.trx.getTransaction("zz").catch(caught),
        refused: await web.fullNode.request("wallet/freezebalance", { ...freeze, resource: "BANDWIDTH" }, "post"),
      };
    });
    assert.equal(got.newest.block_header.raw_data.number, 66_987_627);
    assert.equal(got.first.blockID, "00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc");
    assert.deepEqual([got.balance, got.info.blockNumber], [1_793_227_200, 66_985_120]);
    assert.deepEqual(got.call.constant_result, ["0000000000000000000000000000000000000000000000000000000040cfcc00"]);
    assert.match(JSON.stringify(got.unknown), /Transaction not found/);
    assert.match(JSON.stringify(got.wrongHex), /INVALID hex String/);
    assert.match(JSON.stringify(got.refused), /freeze v2 is open/);
  });

  test("Radix Gateway SDK: status, network, transaction, resource; a 404 with its body; its empty POSTs", async () => {
    const { GatewayApiClient } = await import("@radixdlt/babylon-gateway-api-sdk");
    await using ground = await startGround("radix", ["rest"]);
    const got = await ground.same(async (basePath) => {
      const api = GatewayApiClient.initialize({ basePath, applicationName: "a test", applicationVersion: "1" });
      return {
        status: await api.status.getCurrent(),
        network: await api.status.getNetworkConfiguration(),
        transaction: await api.transaction.getCommittedDetails(
          "txid_rdx1t44y7lrqtrmn0pq4gxgsmn035lh5glws273h0lsff37jnzj2ylls3aeumn",
        ),
        resource: await api.state.getEntityDetailsVaultAggregated(
          "resource_rdx1tknxxxxxxxxxradxrdxxxxxxxxx009923554798xxxxxxxxxradxrd",
        ),
        unknown: await api.state.getEntityMetadata("account_rdx1nosuch").catch((error: unknown) => {
          const { status, errorResponse } = error as { status?: unknown; errorResponse?: unknown };
          return { status, errorResponse };
        }),
      };
    });
    assert.equal(got.status.ledger_state.state_version, 5_151_578);
    assert.deepEqual([got.network.network_id, got.network.network_name], [1, "mainnet"]);
    assert.equal(got.transaction.transaction.fee_paid, "0.25417642453");
    assert.equal(got.resource.details?.type, "FungibleResource");
    const { status, errorResponse } = got.unknown as { status: number; errorResponse: { code: number } };
    assert.deepEqual([status, errorResponse.code], [404, 404]);
  });

  test("the stand-in says nothing that is not in its list, and a client sees that", async () => {
    const { createSolanaRpc } = await import("@solana/kit");
    await using ground = await startGround("solana", ["json_rpc"]);
    await assert.rejects(createSolanaRpc(`${ground.rig.url}/relay/solana`).getVersion().send());
    assert.deepEqual(ground.node.unknown.length > 0, true);
  });
});

function bigText(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
