import assert from "node:assert/strict";
import { test } from "node:test";
import type { FamilyId, Service } from "@turnpike/catalogue";
import { createCatalogue } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import { fc } from "@turnpike/testkit/property";
import { isDenied } from "../denied.ts";
import { httpProbeCall, rpcProbeCall } from "../family.ts";
import { parseFreePath } from "../free-call.ts";
import type { MethodTraits } from "../method-traits.ts";
import { familyOf } from "../registry.ts";
import { BEACON_PATHS } from "./beacon-methods.ts";
import { COSMOS_PATHS } from "./cosmos-methods.ts";
import { LISTED_METHODS } from "./listing.ts";
import { type PathTable, pathTraitsOf } from "./paths.ts";
import { RADIX_PATHS } from "./radix-methods.ts";
import { TRON_PATHS } from "./tron-methods.ts";

const { services } = createCatalogue({});

function serviceOf(id: string): Service {
  const service = services.get(id as never);
  assert.ok(service !== undefined, id);
  return service;
}

function rpcTraits(id: string, method: string, params: unknown): MethodTraits | undefined {
  const rpcType: RpcType = id === "juno" ? "comet_bft" : "json_rpc";
  return familyOf(serviceOf(id), rpcType).traits?.(rpcProbeCall(method, params, rpcType));
}

function pathTraits(id: string, line: string, headers?: Readonly<Record<string, string>>): MethodTraits | undefined {
  const [verb = "", target = "", body = "{}"] = line.split(" ");
  const [path = "", query] = target.split("?");
  const made = parseFreePath(serviceOf(id), {
    verb: verb === "POST" ? "POST" : "GET",
    path,
    query: query === undefined ? "" : `?${query}`,
    body: Buffer.from(body),
    blockHeight: headers?.["x-cosmos-block-height"],
  });
  assert.ok(made.ok, line);
  return familyOf(serviceOf(id), made.call.rpcType).traits?.(made.call);
}

/** The rule in one line: `block 5,latest`, `block ?` where the parameters cannot be read, or its name. */
function show(traits: MethodTraits | undefined, params?: unknown): string {
  if (traits === undefined) return "unknown";
  const { kind, cache } = traits;
  if (kind !== "read") return kind;
  if (cache.by !== "block") return cache.by;
  const refs = cache.blocks(params)?.map((ref) => ("tag" in ref ? ref.tag : "height" in ref ? ref.height : ref.hash));
  return `block ${refs?.join(",") ?? "?"}`;
}

const HASH = `0x${"ab".repeat(32)}`;
const KEY = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin";

const RPC: readonly (readonly [id: string, method: string, params: unknown, rule: string])[] = [
  ["eth", "eth_chainId", [], "forever"],
  ["eth", "eth_blockNumber", [], "head"],
  ["eth", "eth_gasPrice", [], "head"],
  ["eth", "eth_syncing", [], "never"],
  ["eth", "txpool_content", [], "never"],
  ["eth", "eth_getBalance", ["0x1", "0x10"], "block 16"],
  ["eth", "eth_getBalance", ["0x1", "latest"], "block latest"],
  ["eth", "eth_getBalance", ["0x1"], "block latest"],
  ["eth", "eth_getBalance", ["0x1", null], "block ?"],
  ["eth", "eth_getBalance", ["0x1", "16"], "block ?"],
  ["eth", "eth_getBalance", ["0x1", 16], "block ?"],
  ["eth", "eth_getBalance", ["0x1", "0x20000000000000"], "block ?"],
  ["eth", "eth_getBalance", ["0x1", "LATEST"], "block ?"],
  ["eth", "eth_getBalance", { address: "0x1" }, "block ?"],
  ["eth", "eth_getBalance", ["0x1", HASH], `block ${HASH}`],
  ["eth", "eth_getBalance", ["0x1", { blockNumber: "0x5" }], "block 5"],
  ["eth", "eth_getBalance", ["0x1", { blockHash: HASH, requireCanonical: true }], `block ${HASH}`],
  ["eth", "eth_getBalance", ["0x1", { blockHash: HASH, blockNumber: "0x5" }], "block ?"],
  ["eth", "eth_getBalance", ["0x1", { blockHash: "0x5" }], "block ?"],
  ["eth", "eth_getTransactionCount", ["0x1", "pending"], "block pending"],
  ["eth", "eth_call", [{}, "0x5", { "0x1": { balance: "0x0" } }], "block 5"],
  ["eth", "eth_call", [{}, "finalized"], "block finalized"],
  ["eth", "eth_estimateGas", [{}], "block pending"],
  ["eth", "eth_estimateGas", [{}, "latest"], "block latest"],
  ["eth", "eth_getStorageAt", ["0x1", "0x0", "0x5"], "block 5"],
  ["eth", "eth_getProof", ["0x1", [], "safe"], "block safe"],
  ["eth", "eth_feeHistory", ["0x1", "0x5", []], "block 5"],
  ["eth", "eth_feeHistory", ["0x1"], "block ?"],
  ["eth", "eth_getBlockByNumber", ["0x5", true], "block 5"],
  ["eth", "eth_getBlockByNumber", [], "block ?"],
  ["eth", "eth_getBlockByHash", [HASH, false], "found"],
  ["eth", "eth_getBlockReceipts", [HASH], `block ${HASH}`],
  ["eth", "eth_getTransactionByHash", [HASH], "found"],
  ["eth", "eth_getTransactionReceipt", [HASH], "found"],
  ["eth", "eth_getUncleByBlockNumberAndIndex", ["0x5", "0x0"], "block 5"],
  ["eth", "eth_getLogs", [{ fromBlock: "0x5", toBlock: "0x9" }], "block 5,9"],
  ["eth", "eth_getLogs", [{ fromBlock: "0x5" }], "block 5,latest"],
  ["eth", "eth_getLogs", [{ fromBlock: "earliest", toBlock: "pending" }], "block earliest,pending"],
  ["eth", "eth_getLogs", [{}], "block latest,latest"],
  ["eth", "eth_getLogs", [{ blockHash: HASH }], `block ${HASH}`],
  ["eth", "eth_getLogs", [{ blockHash: HASH, fromBlock: "0x1" }], "block ?"],
  ["eth", "eth_getLogs", [], "block ?"],
  ["eth", "trace_filter", [{ fromBlock: "0x5" }], "block ?"],
  ["eth", "trace_block", ["0x5"], "block 5"],
  ["eth", "debug_traceBlockByNumber", ["0x5"], "block 5"],
  ["eth", "debug_traceTransaction", [HASH], "never"],
  ["eth", "eth_getWhatever", ["0x5"], "never"],
  ["eth", "eth_sendRawTransaction", ["0x00"], "write"],
  ["eth", "eth_sendRawTransactionSync", ["0x00"], "write"],
  ["eth", "eth_sendWhatever", ["0x00"], "unknown"],
  ["eth", "eth_newFilter", [{}], "filter"],
  ["eth", "eth_getFilterChanges", ["0x1"], "filter"],
  ["eth", "eth_subscribe", ["newHeads"], "subscription"],
  ["eth", "constructor", [], "unknown"],
  ["eth", "__proto__", [], "unknown"],
  ["juno", "block", { height: "5" }, "block 5"],
  ["juno", "block", ["5"], "block 5"],
  ["juno", "block", {}, "block latest"],
  ["juno", "block", { height: "0" }, "block ?"],
  ["juno", "block", { height: "-5" }, "block ?"],
  ["juno", "commit", { height: "5" }, "block 5,6"],
  ["juno", "commit", {}, "block latest"],
  ["juno", "abci_query", { path: "/cosmos.bank.v1beta1.Query/Balance", height: "5" }, "block 5"],
  ["juno", "abci_query", { path: "/cosmos.bank.v1beta1.Query/Balance", height: "0" }, "block latest"],
  ["juno", "abci_query", ["/store/acc/key", "00", "7"], "block 7"],
  ["juno", "abci_query", { path: "/cosmos.tx.v1beta1.Service/GetTx", height: "5" }, "block ?"],
  ["juno", "abci_query", { path: "/app/simulate", height: "5" }, "block ?"],
  ["juno", "tx", { hash: "00" }, "found"],
  ["juno", "tx_search", { query: "tx.height=5" }, "never"],
  ["juno", "genesis", {}, "forever"],
  ["juno", "status", {}, "never"],
  ["juno", "broadcast_tx_sync", { tx: "" }, "write"],
  ["juno", "broadcast_whatever", {}, "unknown"],
  ["juno", "subscribe", {}, "subscription"],
  ["solana", "getBlock", [5, { commitment: "confirmed" }], "block 5"],
  ["solana", "getBlock", ["x"], "block ?"],
  ["solana", "getTransaction", ["x"], "found"],
  ["solana", "getBalance", [KEY], "never"],
  ["solana", "getGenesisHash", [], "forever"],
  ["solana", "sendTransaction", ["x"], "write"],
  ["solana", "requestAirdrop", ["x", 1], "write"],
  ["near", "block", { finality: "final" }, "block finalized"],
  ["near", "block", { block_id: 5 }, "block 5"],
  ["near", "block", [KEY], `block ${KEY}`],
  ["near", "block", { block_id: 5, finality: "final" }, "block ?"],
  ["near", "block", { finality: "constructor" }, "block ?"],
  ["near", "query", { request_type: "view_account", account_id: "x", finality: "optimistic" }, "block latest"],
  ["near", "query", { request_type: "view_account", account_id: "x" }, "block ?"],
  ["near", "query", ["account/x", ""], "block ?"],
  ["near", "gas_price", [null], "block latest"],
  ["near", "gas_price", [5], "block 5"],
  ["near", "send_tx", {}, "write"],
  ["near", "broadcast_tx_commit", ["x"], "write"],
  ["near", "EXPERIMENTAL_broadcast_tx_sync", ["x"], "write"],
  ["sui", "sui_getCheckpoint", ["5"], "found"],
  ["sui", "suix_getBalance", ["0x1"], "never"],
  ["sui", "sui_executeTransactionBlock", [], "write"],
  ["bitcoin", "getblockhash", [5], "block 5"],
  ["bitcoin", "getblock", [HASH.slice(2), 0], `block ${HASH.slice(2)}`],
  ["bitcoin", "getblock", [HASH.slice(2)], `block ${HASH.slice(2)},latest`],
  ["bitcoin", "getblockstats", [5, ["txs"]], "block 5"],
  ["bitcoin", "sendrawtransaction", ["00"], "write"],
  ["tron", "eth_getBalance", ["0x1", "latest"], "block latest"],
];

test("JSON-RPC: what a call is about", () => {
  for (const [id, method, params, rule] of RPC) {
    assert.equal(show(rpcTraits(id, method, params), params), rule, `${id} ${method} ${JSON.stringify(params)}`);
  }
});

const PATHS: readonly (readonly [id: string, line: string, rule: string])[] = [
  ["juno", "GET /block?height=5", "block 5"],
  ["juno", 'GET /block?height="5"', "block 5"],
  ["juno", "GET /block?height=5&height=6", "block ?"],
  ["juno", "GET /block", "block latest"],
  ["juno", "GET /commit?height=5", "block 5,6"],
  ["juno", 'GET /abci_query?path="/store/bank/key"&height=5', "block 5"],
  ["juno", "GET /broadcast_tx_sync?tx=0x00", "write"],
  ["juno", "GET /status", "never"],
  ["juno", "GET /cosmos/bank/v1beta1/balances/x", "block latest"],
  ["juno", "GET /cosmos/bank/v1beta1/balances/x?height=5", "block ?"],
  ["juno", "GET /cosmos/base/tendermint/v1beta1/blocks/latest", "head"],
  ["juno", "GET /cosmos/base/tendermint/v1beta1/blocks/5", "block 5"],
  ["juno", "GET /cosmos/base/tendermint/v1beta1/abci_query?path=x", "never"],
  ["juno", "GET /cosmos/tx/v1beta1/txs/00", "found"],
  ["juno", "GET /cosmos/tx/v1beta1/txs?query=x", "never"],
  ["juno", "GET /osmosis/gamm/v1beta1/pools", "block latest"],
  ["juno", "GET /what/ever", "never"],
  ["juno", "POST /cosmos/tx/v1beta1/txs", "write"],
  ["juno", "POST /what/ever", "unknown"],
  ["tron", 'POST /wallet/getblockbynum {"num":5}', "block 5"],
  ["tron", "GET /wallet/getblockbynum?num=5", "block 5"],
  ["tron", 'POST /wallet/getblockbynum {"num":5,"num":6}', "block ?"],
  ["tron", "POST /wallet/getblockbynum [5]", "block ?"],
  ["tron", 'POST /wallet/getblockbylimitnext {"startNum":5,"endNum":7}', "block 5,6"],
  ["tron", "POST /wallet/getnowblock", "head"],
  ["tron", "POST /walletsolidity/getnowblock", "block finalized"],
  ["tron", "POST /wallet/getsomething", "never"],
  ["tron", "POST /wallet/broadcasttransaction", "write"],
  ["tron", "GET /wallet/broadcasthex?transaction=00", "write"],
  ["tron", "POST /wallet/createtransaction", "unknown"],
  ["radix", "POST /state/entity/details", "block latest"],
  ["radix", 'POST /state/entity/details {"at_ledger_state":{"state_version":5}}', "block 5"],
  ["radix", 'POST /state/entity/details {"at_ledger_state":{"epoch":5}}', "block ?"],
  ["radix", "POST /transaction/submit", "write"],
  ["radix", "POST /transaction/status", "never"],
  ["radix", "POST /what/ever", "unknown"],
  ["eth-beacon", "GET /eth/v2/beacon/blocks/5", "found"],
  ["eth-beacon", "GET /eth/v1/beacon/genesis", "forever"],
  ["eth-beacon", "GET /eth/v1/node/syncing", "never"],
  ["eth-beacon", "POST /eth/v2/beacon/blocks", "write"],
  ["eth-beacon", "POST /eth/v1/beacon/pool/attestations", "write"],
  ["eth-beacon", "POST /eth/v1/beacon/states/head/validators", "never"],
  ["eth-beacon", "POST /eth/v1/validator/duties/attester/5", "never"],
];

test("paths: what a call is about", () => {
  for (const [id, line, rule] of PATHS) assert.equal(show(pathTraits(id, line)), rule, `${id} ${line}`);
  const held = pathTraits("juno", "GET /cosmos/bank/v1beta1/balances/x", { "x-cosmos-block-height": "5" });
  assert.equal(show(held), "block 5");
});

function heightOf(traits: MethodTraits | undefined, result: unknown): number | undefined {
  assert.equal(traits?.cache.by, "found");
  return traits?.cache.by === "found" ? traits.cache.heightOf(result) : undefined;
}

test("what was found stands at the height that its answer states", () => {
  const receipt = rpcTraits("eth", "eth_getTransactionReceipt", [HASH]);
  assert.equal(heightOf(receipt, { blockNumber: "0x5" }), 5);
  for (const none of [null, undefined, [], {}, { blockNumber: null }, "0x5"])
    assert.equal(heightOf(receipt, none), undefined);
  assert.equal(heightOf(rpcTraits("eth", "trace_transaction", [HASH]), [{ blockNumber: 5 }, { blockNumber: 5 }]), 5);
  assert.equal(heightOf(rpcTraits("juno", "block_by_hash", {}), { block: { header: { height: "5" } } }), 5);
  assert.equal(heightOf(rpcTraits("juno", "block_by_hash", {}), { block: null }), undefined);
  assert.equal(heightOf(rpcTraits("near", "chunk", {}), { header: { height_included: 5 } }), 5);
  const many = rpcTraits("sui", "sui_multiGetTransactionBlocks", []);
  assert.equal(heightOf(many, [{ checkpoint: "5" }, { checkpoint: "7" }]), 7);
  assert.equal(heightOf(many, [{ checkpoint: "5" }, {}]), undefined);
  assert.equal(heightOf(many, []), undefined);
  const block = { data: { message: { slot: "5" } }, finalized: true, execution_optimistic: false };
  const byRoot = pathTraits("eth-beacon", `GET /eth/v2/beacon/blocks/${HASH}`);
  assert.equal(heightOf(byRoot, block), 5);
  assert.equal(heightOf(byRoot, { ...block, finalized: false }), undefined);
  assert.equal(heightOf(pathTraits("eth-beacon", "GET /eth/v2/beacon/blocks/head"), block), undefined);
  assert.equal(
    heightOf(pathTraits("eth-beacon", "GET /eth/v1/beacon/states/7/root"), { data: {}, finalized: true }),
    7,
  );
  const blobs = pathTraits("eth-beacon", "GET /eth/v1/beacon/blob_sidecars/7");
  assert.equal(heightOf(blobs, { data: [], finalized: true }), undefined);
  assert.equal(heightOf(blobs, { data: [{}], finalized: true }), 7);
});

const hasTip = (traits: MethodTraits | undefined): boolean => traits !== undefined && "tipOf" in traits;

test("the newest block is read where an answer states it, and only there", () => {
  const tip = (id: string, method: string, params: unknown, result: unknown): number | undefined =>
    rpcTraits(id, method, params)?.tipOf?.(result);
  assert.equal(tip("eth", "eth_blockNumber", [], "0x10"), 16);
  assert.equal(tip("eth", "eth_blockNumber", [], null), undefined);
  assert.equal(tip("eth", "eth_getBlockByNumber", ["latest", false], { number: "0x10" }), 16);
  assert.ok(!hasTip(rpcTraits("eth", "eth_getBlockByNumber", ["0x10", false])));
  assert.ok(!hasTip(rpcTraits("eth", "eth_getBlockByNumber", ["pending", false])));
  assert.equal(tip("juno", "status", {}, { sync_info: { latest_block_height: "16" } }), 16);
  assert.equal(tip("juno", "block", {}, { block: { header: { height: "16" } } }), 16);
  assert.equal(tip("juno", "header", {}, { header: { height: "16" } }), 16);
  assert.equal(tip("juno", "commit", {}, { signed_header: { header: { height: "16" } } }), 16);
  assert.equal(tip("solana", "getSlot", [], 16), 16);
  assert.ok(!hasTip(rpcTraits("solana", "getSlot", [{ commitment: "processed" }])));
  assert.equal(tip("near", "block", { finality: "optimistic" }, { header: { height: 16 } }), 16);
  assert.ok(!hasTip(rpcTraits("near", "block", { finality: "final" })));
  assert.equal(tip("bitcoin", "getblockcount", [], 16), 16);
});

const FAMILIES: Readonly<Partial<Record<FamilyId, string>>> = {
  evm: "eth",
  cosmos: "juno",
  solana: "solana",
  near: "near",
  sui: "sui",
  tron: "tron",
  bitcoin: "bitcoin",
};

test("no parameters and no result make a rule throw", () => {
  const odd = fc.oneof(
    fc.jsonValue(),
    fc.array(
      fc.oneof(fc.jsonValue(), fc.constantFrom("latest", "0x5", HASH, null, { blockHash: null }, { fromBlock: {} })),
    ),
    fc.constantFrom(undefined, { height: {} }, { block_id: {} }, { finality: "final" }, [[]], [{ toBlock: 5 }]),
  );
  for (const [family, id] of Object.entries(FAMILIES)) {
    const methods = (LISTED_METHODS[family as FamilyId] ?? [])
      .map(({ name }) => name)
      .filter((name) => !name.includes("/"));
    const names = family === "tron" ? ["eth_getLogs", "eth_call"] : methods;
    fc.assert(
      fc.property(fc.constantFrom(...names), odd, odd, (method, params, result) => {
        const traits = rpcTraits(id, method, params);
        assert.ok(traits !== undefined);
        show(traits, params);
        traits.tipOf?.(result);
        if (traits.cache.by === "found") traits.cache.heightOf(result);
      }),
      { numRuns: 300 },
    );
  }
});

test("no body, query or result of a path makes a rule throw", () => {
  const paths: readonly (readonly [id: string, family: FamilyId])[] = [
    ["juno", "cosmos"],
    ["tron", "tron"],
    ["radix", "radix"],
    ["eth-beacon", "beacon"],
  ];
  const query = fc.oneof(
    fc.constantFrom("", "?height=5", "?num=5&num=5", "?a=%ff"),
    fc.string().map((text) => `?${text}`),
  );
  const body = fc.oneof(
    fc.uint8Array(),
    fc.json().map((text) => Buffer.from(text)),
  );
  for (const [id, family] of paths) {
    const rows = (LISTED_METHODS[family] ?? []).filter(({ name }) => name.includes("/"));
    fc.assert(
      fc.property(fc.constantFrom(...rows), query, body, fc.jsonValue(), (row, text, bytes, result) => {
        const [verb, path] = row.name.startsWith("/") ? ["POST", row.name] : row.name.split(" ");
        const target = `${(path ?? "").replaceAll(/\{[^}]+\}|\*/g, "7")}${text}`;
        const made: BackendCall = { ...httpProbeCall(verb === "GET" ? "GET" : "POST", target), body: bytes };
        const traits = familyOf(serviceOf(id), "rest").traits?.(made);
        assert.ok(traits !== undefined, target);
        show(traits);
        traits.tipOf?.(result);
        if (traits.cache.by === "found") traits.cache.heightOf(result);
      }),
      { numRuns: 300 },
    );
  }
});

const PATH_TABLES: Readonly<Partial<Record<FamilyId, PathTable>>> = {
  cosmos: COSMOS_PATHS,
  tron: TRON_PATHS,
  radix: RADIX_PATHS,
  beacon: BEACON_PATHS,
};

test("every declared operation of a chain is in its family's table, and is no write", () => {
  const missing = new Set<string>();
  const wrong = new Set<string>();
  for (const service of services.values()) {
    if (service.families.some((family) => family === "http" || family === "search")) continue;
    for (const { name, rpcType, filter } of service.operations.values()) {
      const [verb, template] = name.split(" ");
      const call =
        template === undefined
          ? rpcProbeCall(name, [], rpcType)
          : httpProbeCall(verb === "GET" ? "GET" : "POST", template.replaceAll(/\{[^}]+\}/g, "7"), rpcType);
      const family = familyOf(service, rpcType);
      assert.ok(family.id !== "unknown");
      const traits = family.traits?.(call);
      const listed = LISTED_METHODS[family.id === "tron" && template === undefined ? "evm" : family.id] ?? [];
      const table = rpcType === "rest" ? PATH_TABLES[family.id] : undefined;
      const bare = rpcType === "comet_bft" ? name.replace(/^GET \//, "") : name;
      const isListed =
        table === undefined ? listed.some((one) => one.name === bare) : pathTraitsOf(table, call) !== undefined;
      if (traits === undefined || !isListed) missing.add(`${family.id} ${name}`);
      else if (traits.kind !== (filter === undefined ? "read" : "filter"))
        wrong.add(`${family.id} ${name} ${traits.kind}`);
    }
  }
  assert.deepEqual([...missing], []);
  assert.deepEqual([...wrong], []);
});

test("the tables name nothing that the free relay refuses", () => {
  for (const [family, id] of Object.entries({ ...FAMILIES, radix: "radix", beacon: "eth-beacon" })) {
    for (const { name } of LISTED_METHODS[family as FamilyId] ?? []) {
      assert.equal(isDenied(serviceOf(id), name.replace(/^(?:GET|POST) /, "")), false, `${family} ${name}`);
    }
  }
});
