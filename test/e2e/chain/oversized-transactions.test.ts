import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { systemClock } from "@turnpike/base";
import { ChainClient, signTx } from "@turnpike/chain-client";
import {
  type Any,
  application,
  authz,
  base,
  createMessage,
  encodeMessage,
  shared,
  supplier,
  tx as txs,
} from "@turnpike/proto";
import { party } from "../../support/chain/local-chain.ts";
import { type EmbeddedTestNode, startEmbedded } from "../../support/chain/nodes.ts";
import { msg } from "../../support/chain/strangers.ts";

const BOUND = /MsgStakeApplication\.services has more than 1000 items|the message has more than \d+ parts/;
const stranger = party("stranger");
const stake = createMessage(base.CoinSchema, { denom: "upokt", amount: "1000000000" });

/** A stake of an application that names one service many times. */
const ofApplication = (count: number, serviceId = "a"): Any => {
  const services = Array.from({ length: count }, () => ({ serviceId }));
  return msg(application.MsgStakeApplicationSchema, { address: stranger.address, stake, services });
};
/** A stake of a supplier with many empty configurations. */
const ofSupplier = (count: number): Any => {
  const services = Array.from({ length: count }, (_, at) =>
    createMessage(shared.SupplierServiceConfigSchema, { serviceId: `${at % 10}` }),
  );
  const { address } = stranger;
  const addresses = { signer: address, ownerAddress: address, operatorAddress: address };
  return msg(supplier.MsgStakeSupplierSchema, { ...addresses, stake, services });
};

function signed(messages: readonly Any[]): Uint8Array {
  const order = { kind: "ordered", sequence: 0n } as const;
  const fee = [{ denom: "upokt", amount: 1_000_000n }];
  return signTx({ messages, chainId: "pocket", accountNumber: 1n, order, gasLimit: 10n ** 9n, fee }, stranger);
}

const many = (count: number, message: Any): Any[] => Array.from({ length: count }, () => message);
/** Each names about 60,000 services. */
const ATTACKS: Readonly<Record<string, () => readonly Any[]>> = {
  "one message": () => [ofApplication(60_000)],
  "60 messages of 1,000 services": () => many(60, ofApplication(1_000)),
  "1,500 messages of 40 services": () => many(1_500, ofApplication(40)),
  "60 stakes of suppliers": () => many(60, ofSupplier(1_000)),
  "one message in an authorization": () => [
    msg(authz.MsgExecSchema, { grantee: stranger.address, msgs: [ofApplication(60_000)] }),
  ],
};

suite("attack: a transaction that names 60,000 services", () => {
  let node: EmbeddedTestNode;
  let client: ChainClient;
  before(async () => {
    node = await startEmbedded();
    client = new ChainClient({ url: node.rpcUrl }, { clock: systemClock });
    await node.node.produceBlock();
  });
  after(async () => {
    await client?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
  });

  const rpc = async (method: string, params: object): Promise<string> => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const headers = { "content-type": "application/json" };
    return (await fetch(node.rpcUrl, { method: "POST", headers, body })).text();
  };
  const rest = async (path: string, body: object): Promise<string> =>
    (await fetch(`${node.restUrl}${path}`, { method: "POST", body: JSON.stringify(body) })).text();

  /** Every way by which anyone may send a transaction or have one run. */
  const WAYS: Readonly<Record<string, (bytes: Uint8Array) => Promise<string>>> = {
    broadcast_tx_sync: (bytes) => rpc("broadcast_tx_sync", { tx: base64(bytes) }),
    broadcast_tx_commit: (bytes) => rpc("broadcast_tx_commit", { tx: base64(bytes) }),
    check_tx: (bytes) => rpc("check_tx", { tx: base64(bytes) }),
    "abci_query of a simulation": (bytes) => {
      const request = encodeMessage(
        txs.SimulateRequestSchema,
        createMessage(txs.SimulateRequestSchema, { txBytes: bytes }),
      );
      const data = Buffer.from(request).toString("hex");
      return rpc("abci_query", { path: "/cosmos.tx.v1beta1.Service/Simulate", data });
    },
    "REST simulation": (bytes) => rest("/cosmos/tx/v1beta1/simulate", { tx_bytes: base64(bytes) }),
    "REST broadcast": (bytes) =>
      rest("/cosmos/tx/v1beta1/txs", { tx_bytes: base64(bytes), mode: "BROADCAST_MODE_SYNC" }),
  };
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

  for (const [name, messages] of Object.entries(ATTACKS)) {
    test(`${name}: refused by its bytes, before a message is decoded, by every way`, async () => {
      const bytes = signed(messages());
      assert.ok(bytes.length < 480_000, `${bytes.length} bytes: the body's bound would refuse it`);
      for (const [way, send] of Object.entries(WAYS)) {
        const text = await send(bytes);
        assert.match(text, BOUND, `${way}: ${text.slice(0, 300)}`);
        assert.ok(text.length < 4_096, `${way}: ${text.length} characters`);
      }
      assert.match(await rpc("num_unconfirmed_txs", {}), /"total":"0"/);
    });
  }

  test("a stake of as many services as the bound allows is read", async () => {
    const text = await rpc("check_tx", { tx: base64(signed([ofApplication(1_000, "service")])) });
    assert.doesNotMatch(text, BOUND);
    assert.match(text, /"code":[1-9]/);
  });
});
