import assert from "node:assert/strict";
import type { DescMethodUnary } from "@bufbuild/protobuf";
import { isRecord } from "@turnpike/base";
import { baseNode, baseTendermint, createMessage, encodeMessage, tx } from "@turnpike/proto";
import type { Strangers } from "../../support/chain/strangers.ts";

/** An answer of `abci_query`. */
interface AbciAnswer {
  readonly code: number;
  readonly log: string;
  readonly value: string | null;
}

async function abciQuery(rpcUrl: string, path: string, data: Uint8Array, heightBlocks: bigint): Promise<AbciAnswer> {
  const params = { path, data: Buffer.from(data).toString("hex"), height: `${heightBlocks}`, prove: false };
  const response = await fetch(rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "abci_query", params }),
  });
  const body: unknown = await response.json();
  const result = isRecord(body) ? body.result : undefined;
  assert.ok(isRecord(result) && isRecord(result.response), JSON.stringify(body));
  return result.response as unknown as AbciAnswer;
}

/** Asserts that the base services answer over `abci_query` what they answer over gRPC. */
export async function assertBaseServices(rpcUrl: string, strangers: Strangers): Promise<void> {
  const blocks = baseTendermint.Service.method;
  const txs = tx.Service.method;
  const { txs: included, txResponses } = await strangers.ask(txs.getTxsEvent, { query: "tx.height>0", limit: 1n });
  const [response, found] = [txResponses[0] ?? assert.fail(), included[0] ?? assert.fail()];
  const { txhash: hash, height: heightBlocks } = response;
  const { txBytes } = await strangers.ask(txs.txEncode, { tx: found });
  // What does not depend on the newest block, which comes by itself under CometBFT.
  const same: readonly (readonly [DescMethodUnary, Record<string, unknown>])[] = [
    [blocks.getNodeInfo, {}],
    [blocks.getSyncing, {}],
    [blocks.getBlockByHeight, { height: heightBlocks }],
    [blocks.getValidatorSetByHeight, { height: heightBlocks }],
    [blocks.aBCIQuery, { path: "/app/version", height: heightBlocks }],
    [baseNode.Service.method.config, {}],
    [baseNode.Service.method.status, {}],
    [txs.getTx, { hash }],
    [txs.getTxsEvent, { query: `tx.height=${heightBlocks}` }],
    [txs.getBlockWithTxs, { height: heightBlocks }],
    [txs.txDecode, { txBytes }],
  ];
  for (const [method, request] of same) {
    const path = `/${method.parent.typeName}/${method.name}`;
    const bytes = encodeMessage(method.input, createMessage(method.input, request));
    const [over, through] = await Promise.all([
      abciQuery(rpcUrl, path, bytes, heightBlocks),
      strangers.grpc(path, bytes, heightBlocks),
    ]);
    assert.deepEqual([over.code, over.log], [0, ""], path);
    assert.equal(Buffer.from(over.value ?? "", "base64").toString("hex"), through.value, path);
  }
  const latest = await strangers.ask(blocks.getLatestBlock, {});
  assert.ok((latest.block?.header?.height ?? 0n) >= heightBlocks);
  const { validators } = await strangers.ask(blocks.getLatestValidatorSet, {});
  assert.ok(validators.length > 0);
  const none = await abciQuery(rpcUrl, "/cosmos.tx.v1beta1.Service/BroadcastTx", new Uint8Array(0), 0n);
  assert.deepEqual([none.code, none.log], [18, "can't route a broadcast tx message: invalid request"]);
  const unknown = encodeMessage(txs.getTx.input, createMessage(txs.getTx.input, { hash: "AB".repeat(32) }));
  const { code } = await abciQuery(rpcUrl, `/${txs.getTx.parent.typeName}/GetTx`, unknown, 0n);
  assert.equal(code, 22);
}
