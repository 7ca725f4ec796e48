import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { DirectSecp256k1Wallet } from "@cosmjs/proto-signing";
import { GasPrice, SigningStargateClient } from "@cosmjs/stargate";
import { silentLog, systemClock } from "@turnpike/base";
import { EmbeddedSource } from "@turnpike/chain-node";
import { ADDRESSES, CHAIN_ID, KEYS, openTestNode, START_AMOUNT } from "@turnpike/testkit/embedded-node";
import { must } from "@turnpike/testkit/fixtures";
import { at } from "../../test/rpc/recorded-node.ts";
import { AbciQueries } from "../services/abci-queries.ts";
import { startRpcServer } from "./rpc-server.ts";

it("an unmodified wallet pays over the RPC of the embedded engine", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rpc-engine-"));
  try {
    await using node = await openTestNode({ folder, blockIntervalMs: 20, clock: systemClock });
    const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:26656", rpcAddr: () => server.url }, node);
    const queries = new AbciQueries(
      { surface: { queryPaths: [], messageTypeUrls: [] }, gasPrices: [] },
      { application: node.application, source, log: silentLog },
    );
    await using server = await startRpcServer(
      { host: "127.0.0.1", port: 0 },
      { node, queries, log: silentLog, clock: systemClock },
    );
    const [from = "", to = ""] = ADDRESSES;
    const wallet = await DirectSecp256k1Wallet.fromKey(Uint8Array.from(must(KEYS[0])), "pokt");
    const options = { gasPrice: GasPrice.fromString("0.001upokt"), broadcastPollIntervalMs: 20 };
    const client = await SigningStargateClient.connectWithSigner(server.url, wallet, options);
    assert.equal(await client.getChainId(), CHAIN_ID);
    const fee = { amount: [{ denom: "upokt", amount: "500" }], gas: "300000" };
    const sent = await client.sendTokens(from, to, [{ denom: "upokt", amount: "7" }], fee, "a memo");
    assert.equal(sent.code, 0);
    // As wallets do with a fee of "auto": simulated over abci_query, with an empty signature.
    const message = { fromAddress: from, toAddress: to, amount: [{ denom: "upokt", amount: "7" }] };
    const gas = await client.simulate(from, [{ typeUrl: "/cosmos.bank.v1beta1.MsgSend", value: message }], "a memo");
    assert.ok(gas > 40_000 && gas < 300_000, `${gas}`);
    assert.equal(BigInt((await client.getBalance(from, "upokt")).amount), START_AMOUNT - 507n);
    assert.equal((await client.getTx(sent.transactionHash))?.height, sent.height);
    assert.equal(await client.getTx("00".repeat(32)), null);
    const found = await client.searchTx(`transfer.recipient='${to}' AND tx.height>=${sent.height}`);
    assert.deepEqual(
      found.map(({ hash }) => hash),
      [sent.transactionHash],
    );
    client.disconnect();
    const blockOf = async (height: number): Promise<unknown> =>
      (await fetch(`${server.url}/block?height=${height}`)).json();
    const block = await blockOf(sent.height);
    const before = await blockOf(sent.height - 1);
    const lastId = at(block, "result", "block", "header", "last_block_id");
    assert.deepEqual(lastId, at(before, "result", "block_id"));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
