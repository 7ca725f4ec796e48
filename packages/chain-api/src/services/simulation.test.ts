import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import type { AppAnswer } from "@turnpike/chain";
import { type EmbeddedNode, EmbeddedSource } from "@turnpike/chain-node";
import { createMessage, decodeMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { openTestNode, sendTx, testGenesis } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { AbciQueries } from "./abci-queries.ts";
import { type ApiAnswer, ChainApi } from "./chain-api.ts";
import { SIMULATE_PATH } from "./simulation.ts";

const OPTIONS = { surface: { queryPaths: [], messageTypeUrls: [] }, gasPrices: [] };
const modulesOf = (node: EmbeddedNode) => ({
  application: node.application,
  source: new EmbeddedSource({ listenAddr: "tcp://a:1", rpcAddr: () => "tcp://a:2" }, node),
  log: silentLog,
});
const grpc = (node: EmbeddedNode, request: Uint8Array): Promise<ApiAnswer> =>
  new ChainApi(OPTIONS, modulesOf(node)).call(SIMULATE_PATH, request, undefined);
const abci = async (node: EmbeddedNode, path: string, data: Uint8Array): Promise<AppAnswer> =>
  new AbciQueries(OPTIONS, modulesOf(node)).abciQuery(path, data);

const request = (txBytes: Uint8Array): Uint8Array =>
  encodeMessage(txs.SimulateRequestSchema, createMessage(txs.SimulateRequestSchema, { txBytes }));

// As clients simulate that have no key at hand.
function withoutSignature(tx: Uint8Array): Uint8Array {
  const raw = decodeMessage(txs.TxRawSchema, tx);
  assert.ok(raw.ok);
  return encodeMessage(txs.TxRawSchema, { ...raw.message, signatures: [new Uint8Array(0)] });
}

suite("simulating", () => {
  test("answers gas, events and responses, in both forms, on the mempool's state", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    await node.produceBlock();
    const tx = sendTx({ from: 0, sequence: 0n });
    const answer = await grpc(node, request(tx));
    assert.ok(answer.ok);
    const decoded = decodeMessage(txs.SimulateResponseSchema, answer.value);
    assert.ok(decoded.ok);
    const { gasInfo, result } = decoded.message;
    assert.equal(gasInfo?.gasWanted, 18_446_744_073_709_551_615n);
    assert.ok((gasInfo?.gasUsed ?? 0n) > 40_000n);
    assert.equal(result?.msgResponses[0]?.typeUrl, "/cosmos.bank.v1beta1.MsgSendResponse");
    assert.ok(result.events.length > 5 && result.events.every((one) => one.attributes.every(({ index }) => !index)));
    assert.deepEqual((await abci(node, SIMULATE_PATH, request(tx))).value, answer.value);
    const raw = decodeMessage(txs.TxRawSchema, tx);
    assert.ok(raw.ok);
    const body = decodeMessage(txs.TxBodySchema, raw.message.bodyBytes);
    const authInfo = decodeMessage(txs.AuthInfoSchema, raw.message.authInfoBytes);
    assert.ok(body.ok && authInfo.ok);
    const whole = createMessage(txs.TxSchema, {
      body: body.message,
      authInfo: authInfo.message,
      signatures: raw.message.signatures,
    });
    const old = encodeMessage(txs.SimulateRequestSchema, createMessage(txs.SimulateRequestSchema, { tx: whole }));
    assert.deepEqual(await grpc(node, old), answer);
    const json = JSON.parse(Buffer.from((await abci(node, "/app/simulate", tx)).value).toString());
    assert.deepEqual(Object.keys(json), ["gas_info", "result"]);
    assert.equal(json.gas_info.gas_used, `${gasInfo?.gasUsed}`);
    // Nothing was kept; and what waits counts.
    assert.equal(node.submit(tx).kind, "checked");
    assert.ok((await grpc(node, request(sendTx({ from: 0, sequence: 1n })))).ok);
    const again = await grpc(node, request(tx));
    assert.ok(!again.ok);
    assert.equal(again.status, 2);
    assert.match(
      again.text,
      /^account sequence mismatch, expected 1, got 0: incorrect account sequence.* with gas used: '\d+'$/,
    );
    assert.equal((await abci(node, SIMULATE_PATH, request(tx))).code, 6);
  });

  test("a keyless one of a megabyte ends at its gas, and one that no mempool takes at once", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    await node.produceBlock();
    const large = sendTx({ from: 0, sequence: 0n, messages: 6_000 });
    assert.ok(large.length > 500_000 && large.length < 1_048_576, `${large.length}`);
    const stripped = withoutSignature(large);
    const answer = await grpc(node, request(stripped));
    assert.ok(!answer.ok);
    const [, wanted, used] =
      /^out of gas in location: .*; gasWanted: (\d+), gasUsed: (\d+): out of gas/.exec(answer.text) ?? [];
    assert.equal(wanted, "100000000", answer.text);
    // One step more than the bound, and no more.
    assert.ok(BigInt(used ?? 0) < 100_100_000n, answer.text);
    const huge = await grpc(node, request(new Uint8Array(1_048_577)));
    assert.ok(!huge.ok);
    assert.match(huge.text, /^Tx too large\. Max size is 1048576, but got 1048577: tx too large with gas used: '0'$/);
  });

  test("where blocks have less gas, a simulation has no more", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path, genesis: testGenesis({ maxGas: "1000000" }) });
    await node.produceBlock();
    const answer = await grpc(node, request(sendTx({ from: 0, sequence: 0n, messages: 100 })));
    assert.ok(!answer.ok);
    assert.match(answer.text, /gasWanted: 1000000, gasUsed: \d+: out of gas/);
  });

  test("when too many wait, the next is refused and told what to do", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    await node.produceBlock();
    const tx = sendTx({ from: 0, sequence: 0n });
    const all = await Promise.all(Array.from({ length: 80 }, () => grpc(node, request(tx))));
    const refused = all.filter((one) => !one.ok);
    assert.ok(all.length - refused.length >= 65 && refused.length > 0, `${refused.length}`);
    for (const one of refused) {
      assert.ok(!one.ok);
      assert.deepEqual([one.status, one.text], [8, "too many simulations wait; try again, or name the gas"]);
    }
  });
});
