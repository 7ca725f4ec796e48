import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import type { RpcType } from "@turnpike/protocol";
import type { ProbeReading } from "./family.ts";
import { familyOf } from "./registry.ts";

const { services } = createCatalogue({});

function serviceOf(id: string): Service {
  const service = services.get(id as never);
  assert.ok(service !== undefined, id);
  return service;
}

/** What each step asks, and what it reads from an answer. */
function read(
  id: string,
  rpcType: RpcType,
  ...results: readonly unknown[]
): readonly (readonly [string, ProbeReading])[] {
  const probe = familyOf(serviceOf(id), rpcType).probe(serviceOf(id), rpcType);
  return (probe?.steps ?? []).map((step, at) => [
    `${step.call.operation}${step.isOptional === true ? " optional" : ""}`,
    step.read(results[at]),
  ]);
}

const hash = (digit: string): string => `0x${digit.repeat(64)}`;

test("EVM: chain id, newest block with its hash, and the newest final one, which few nodes report", () => {
  const block = { number: "0x64", hash: hash("A"), parentHash: hash("b") };
  assert.deepEqual(read("eth", "json_rpc", "0x1", block, { number: "0x50" }), [
    ["eth_chainId", { ok: true }],
    [
      "eth_getBlockByNumber",
      { ok: true, heightBlocks: 100, head: { heightBlocks: 100, hash: hash("a"), parentHash: hash("b") } },
    ],
    ["eth_getBlockByNumber optional", { ok: true, finalBlocks: 80 }],
  ]);
  for (const none of [null, "0x64", {}, { number: "0x64" }, { number: "latest", hash: hash("a") }]) {
    assert.deepEqual(read("eth", "json_rpc", "0x1", none, none)[1]?.[1], { ok: false, reason: "bad_answer" });
  }
  const [, step] = familyOf(serviceOf("eth")).probe(serviceOf("eth"), "json_rpc")?.steps ?? [];
  assert.deepEqual(step?.instead?.read("0x64"), { ok: true, heightBlocks: 100 });
});

test("networks whose newest block is final say so, and others what they know", () => {
  const one = (id: string, rpcType: RpcType, ...results: readonly unknown[]): string =>
    read(id, rpcType, ...results)
      .map(
        ([name, reading]) =>
          `${name} ${reading.ok ? `${reading.heightBlocks}/${reading.finalBlocks}` : reading.reason}`,
      )
      .join(", ");
  const status = { node_info: { network: "juno-1" }, sync_info: { latest_block_height: "100" } };
  assert.equal(one("juno", "comet_bft", status), "GET /status 100/100");
  assert.equal(one("solana", "json_rpc", 100), "getSlot 100/100");
  assert.equal(one("sui", "json_rpc", "100"), "sui_getLatestCheckpointSequenceNumber 100/100");
  assert.equal(one("bitcoin", "json_rpc", 900_000), "getblockcount 900000/899900");
  assert.equal(one("bitcoin", "json_rpc", 5), "getblockcount 5/0");
  assert.equal(one("radix", "rest", { ledger_state: { state_version: 100 } }), "POST /status/gateway-status 100/100");
  assert.equal(
    one("near", "json_rpc", { sync_info: { latest_block_height: 100 } }, { header: { height: 98 } }),
    "status 100/undefined, block optional undefined/98",
  );
  const nowBlock = (number: number): unknown => ({ block_header: { raw_data: { number } } });
  assert.equal(
    one("tron", "rest", nowBlock(100), nowBlock(81)),
    "POST /wallet/getnowblock 100/undefined, POST /walletsolidity/getnowblock optional undefined/81",
  );
  assert.equal(
    one("eth-beacon", "rest", { data: { head_slot: "100" } }, { data: { header: { message: { slot: "32" } } } }),
    "GET /eth/v1/node/syncing 100/undefined, GET /eth/v1/beacon/headers/finalized optional undefined/32",
  );
});
