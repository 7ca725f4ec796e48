import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { test } from "node:test";
import { base64ToBytes, bytesToHex, isAppError } from "@turnpike/base";
import { dataHash, headerHash, resultsHash, txHash } from "@turnpike/cometbft";
import { must } from "@turnpike/testkit/fixtures";
import { CometRpc, type CometRpcOptions } from "./comet-rpc.ts";
import { CometSource } from "./comet-source.ts";

type Answer = string | ((response: ServerResponse) => void);

interface Exchange {
  readonly request: { readonly method: string; readonly body?: { readonly params?: unknown } };
  readonly body: unknown;
}

/** What the real node answered to a method with these parameters. */
function recorded(method: string, params: unknown): string {
  const file = new URL(`../../../../test/spec/recorded-chain/rpc/${method}.json`, import.meta.url);
  const all = JSON.parse(readFileSync(file, "utf8")) as readonly Exchange[];
  const wanted = JSON.stringify(params);
  const found = all.find(({ request }) => request.method === "POST" && JSON.stringify(request.body?.params) === wanted);
  return JSON.stringify(must(found).body);
}

/** A source on a server that answers with what it is given. */
async function withSource(
  answer: (method: string, params: Readonly<Record<string, unknown>>) => Answer,
  use: (source: CometSource) => Promise<void>,
  opts: Omit<CometRpcOptions, "url"> = {},
): Promise<void> {
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = Buffer.concat(await request.toArray()).toString();
    const { method, params } = JSON.parse(text) as { method: string; params: Readonly<Record<string, unknown>> };
    const given = answer(method, params);
    if (typeof given === "string") response.end(given);
    else given(response);
  };
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  using rpc = new CometRpc({ url: `http://127.0.0.1:${address.port}`, ...opts });
  try {
    await use(new CometSource({ rpc }));
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const HASH = "49F3CE16561D9EDC38F653487E67679A0E0DC484BC06F8A4AB2D19915B883ABB";
const hash = Buffer.from(HASH, "hex");
const page = { order: "asc", skip: 0, take: 1 } as const;

test("answers of the real node are read: hashes recompute", async () => {
  const answer = (method: string, params: Readonly<Record<string, unknown>>): string => {
    if (method === "tx") return recorded("tx", { hash: params.hash });
    if (method === "validators") return recorded("validators", {});
    if (method === "header") return recorded("header", { height: "103" });
    if (method === "tx_search") return recorded("tx_search", { query: params.query });
    return recorded(method, params);
  };
  await withSource(answer, async (source) => {
    const { block, id } = must(await source.block(103n));
    assert.equal(bytesToHex(headerHash(block.header)), bytesToHex(id.hash));
    assert.equal(bytesToHex(dataHash(block.txs)), bytesToHex(block.header.dataHash));
    assert.equal(await source.block(102_035n), undefined);
    assert.equal(await source.results(102_035n), undefined);
    const results = must(await source.results(103n));
    const tx = must(await source.tx(hash));
    assert.deepEqual(results.txResults, [tx.result]);
    assert.deepEqual([tx.heightBlocks, tx.index, bytesToHex(txHash(tx.bytes)).toUpperCase()], [103n, 0, HASH]);
    assert.equal(resultsHash(results.txResults).length, 32);
    assert.equal(await source.tx(Buffer.alloc(32, 1)), undefined);
    assert.deepEqual(await source.searchTxs(`tx.hash='${HASH}'`, page), { items: [tx], total: 1 });
    assert.deepEqual(await source.searchTxs("message.sender='nobody'", page), { items: [], total: 0 });
    await assert.rejects(source.searchTxs("nonsense", page), { code: "INVALID_PARAMS", message: "offset 8: EOF" });
    const { validators, proposer } = must(await source.validators());
    assert.deepEqual(validators, [proposer]);
    assert.equal(bytesToHex(proposer.address), bytesToHex(block.header.proposerAddress));
    const info = await source.nodeInfo();
    assert.deepEqual([info.version, info.moniker], ["0.38.19", "validator1"]);
    assert.equal(await source.latestHeightBlocks(), 2035n);
  });
});

test("a search goes over as many pages as it needs", async () => {
  const total = 250;
  const one = (i: number): unknown => ({
    hash: HASH,
    height: `${i + 1}`,
    index: 0,
    tx: "AQ==",
    tx_result: { code: 0 },
  });
  const answer = (_: string, params: Readonly<Record<string, unknown>>): string => {
    const from = (Number(params.page) - 1) * 100;
    const data = "page should be within [1, 3] range, given 9";
    if (from >= total) return JSON.stringify({ id: 1, error: { code: -32603, message: "Internal error", data } });
    const txs = Array.from({ length: Math.min(100, total - from) }, (__, i) => one(from + i));
    return JSON.stringify({ id: 1, result: { txs, total_count: `${total}` } });
  };
  await withSource(answer, async (source) => {
    for (const [skip, take] of [
      [0, 30],
      [95, 10],
      [0, 250],
      [90, 500],
      [249, 5],
      [250, 5],
      [700, 5],
      [0, 0],
    ] as const) {
      const found = await source.searchTxs("tx.height>0", { order: "asc", skip, take });
      const wanted = Array.from({ length: total }, (_, i) => BigInt(i + 1)).slice(skip, skip + take);
      assert.deepEqual(
        found.items.map(({ heightBlocks }) => heightBlocks),
        wanted,
        `${skip}+${take}`,
      );
      assert.equal(found.total, total);
    }
  });
});

test("what is sent is checked, known, or refused with the node's words", async () => {
  const sent = must(base64ToBytes("AQID"));
  const fault = (data: string): string =>
    JSON.stringify({ jsonrpc: "2.0", id: 1, error: { code: -32603, message: "Internal error", data } });
  const cases: [string, object][] = [
    [fault("tx already exists in cache"), { kind: "known" }],
    [
      fault("mempool is full: number of txs 1 (max: 1)"),
      { kind: "refused", text: "mempool is full: number of txs 1 (max: 1)" },
    ],
  ];
  for (const [answer, wanted] of cases) {
    await withSource(
      () => answer,
      async (source) => {
        assert.deepEqual(await source.submit(sent), { hash: txHash(sent), ...wanted });
      },
    );
  }
  const checked = JSON.stringify({ result: { code: 13, codespace: "sdk", log: "fee", data: "", hash: HASH } });
  await withSource(
    () => checked,
    async (source) => {
      const answer = await source.submit(sent);
      assert.ok(answer.kind === "checked");
      assert.deepEqual([answer.result.code, answer.result.codespace, answer.result.log], [13, "sdk", "fee"]);
    },
  );
});

test("a node that is gone, silent, endless or no CometBFT is unreachable", async () => {
  const isUnreachable = (error: unknown): boolean => isAppError(error, "CHAIN_UNREACHABLE");
  const silence: Answer = () => {};
  const bad: Answer[] = [
    "",
    "{",
    "[]",
    "null",
    '"text"',
    "{}",
    '{"result":{"block":5}}',
    '{"result":{"block":{"header":{"height":"1x"}}}}',
    '{"result":{"block":{"header":{"height":"1","time":"yesterday"}}}}',
    '{"error":{"data":"something else"}}',
    (response) => void response.destroy(),
    (response) => void response.write("x".repeat(5000)),
    silence,
  ];
  for (const answer of bad) {
    const limits = { maxAnswerBytes: 4000, timeoutMs: answer === silence ? 100 : 60_000 };
    const use = (source: CometSource): Promise<void> => assert.rejects(source.block(1n), isUnreachable, String(answer));
    await withSource(() => answer, use, limits);
  }
  using gone = new CometRpc({ url: "http://127.0.0.1:1" });
  await assert.rejects(new CometSource({ rpc: gone }).nodeInfo(), isUnreachable);
  for (const url of ["", "127.0.0.1:1", "ftp://127.0.0.1"]) {
    assert.throws(
      () => new CometRpc({ url }),
      (error) => isAppError(error, "CONFIG_INVALID"),
      url,
    );
  }
});
