import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createCatalogue } from "./catalogue.ts";
import { checkParams, checkResult } from "./check.ts";
import { EVM_COMMON_METHODS, EVM_EXTRA_METHODS } from "./evm-operations.ts";
import type { Service } from "./types.ts";

interface Sample {
  readonly method: string;
  readonly name: string;
  readonly params?: readonly unknown[];
  readonly result: unknown;
}

const read = (file: string): readonly Sample[] =>
  JSON.parse(readFileSync(new URL(`../../../test/spec/catalogue/${file}`, import.meta.url), "utf8")) as Sample[];
const recorded = read("evm-recorded.json");
const samples = [...recorded, ...read("evm-made.json")];
const { services } = createCatalogue();

/** Some route that has this method. */
function routeOf(method: string): Service {
  const found = [...services.values()].find(({ operations, id }) => operations.has(method) && id !== "tron");
  assert.ok(found, `no route has ${method}`);
  return found;
}

const check = (method: string, result: unknown): string => checkResult(routeOf(method), method, result);

function sample(method: string, name: string): Record<string, unknown> {
  const found = samples.find((entry) => entry.method === method && entry.name === name);
  assert.ok(found, `${method}: ${name}`);
  return structuredClone(found.result) as Record<string, unknown>;
}

test("every method has a right answer among the samples, and takes it", () => {
  for (const method of [...EVM_COMMON_METHODS, ...EVM_EXTRA_METHODS]) {
    const own = samples.filter((entry) => entry.method === method);
    assert.ok(own.length > 0, `no sample of ${method}`);
    for (const { name, result } of own) assert.equal(check(method, result), "passed", `${method}: ${name}`);
  }
});

/** All answers of `value` with one hex text bent, with the path of the bent one. */
function* bentHex(value: unknown, path: string): Generator<readonly [string, unknown]> {
  if (typeof value === "string") {
    if (value.startsWith("0x")) yield [path, `${value}g`];
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      for (const [at, bent] of bentHex(item, `${path}[${index}]`)) yield [at, value.with(index, bent)];
    }
  } else if (typeof value === "object" && value !== null) {
    for (const [key, member] of Object.entries(value)) {
      for (const [at, bent] of bentHex(member, `${path}.${key}`)) yield [at, { ...value, [key]: bent }];
    }
  }
}

/** Members that no specification has: the node's own. */
const OWN_MEMBERS = /l1BlockNumber|sendRoot|sendCount|sourceHash|depositReceiptVersion|l1Fee|l1GasPrice|syncedAccounts/;

test("a text that is not hex is refused wherever it stands in an answer", () => {
  const missed: string[] = [];
  for (const { method, name, result } of samples) {
    for (const [path, bent] of bentHex(result, method)) {
      if (check(method, bent) !== "failed" && !OWN_MEMBERS.test(path)) missed.push(`${name}: ${path}`);
    }
  }
  assert.deepEqual(missed, []);
});

const NULLABLE = /Block(By|Receipts|AccessList|TransactionCount)|TransactionBy|Receipt$|Uncle/;

test("an answer of another kind is refused", () => {
  for (const method of [...EVM_COMMON_METHODS, ...EVM_EXTRA_METHODS]) {
    const own = samples.filter((entry) => entry.method === method && entry.result !== null);
    for (const other of [1, 1.5, "", "latest", "0x", "0xg", [null], { code: 1 }, [1], undefined]) {
      const kinds = new Set(own.map(({ result }) => (Array.isArray(result) ? "array" : typeof result)));
      const kind = Array.isArray(other) ? "array" : typeof other;
      const isLegal =
        (other === "0x" && /^eth_(call|getCode)$|^debug_getRawTransaction$/.test(method)) ||
        (kinds.has("string") && kind === "string" && method === "web3_clientVersion" && other !== "") ||
        (method === "eth_syncing" && kind === "object");
      if (!isLegal) assert.equal(check(method, other), "failed", `${method}: ${JSON.stringify(other)}`);
    }
    assert.equal(check(method, null), NULLABLE.test(method) ? "passed" : "failed", `${method}: null`);
  }
});

test("quantities have no leading zeros and no more digits than their type", () => {
  const quantities = EVM_COMMON_METHODS.filter((method) =>
    samples.some((entry) => entry.method === method && /^0x(0|[1-9a-f][0-9a-f]{0,30})$/.test(String(entry.result))),
  ).filter((method) => !/new\w*Filter$|^eth_(call|getCode)$/.test(method));
  assert.ok(quantities.length >= 9, quantities.join());
  for (const method of quantities) {
    for (const bent of ["0x01", "0x00", "1", "0X1", " 0x1", "0x1 ", "-0x1"]) {
      assert.equal(check(method, bent), "failed", `${method}: ${bent}`);
    }
  }
  assert.equal(check("eth_getBalance", `0x1${"0".repeat(64)}`), "failed");
  assert.equal(check("eth_getTransactionCount", `0x1${"0".repeat(16)}`), "failed");
});

test("hashes, code and words of another length are refused", () => {
  assert.equal(check("web3_sha3", `0x${"a".repeat(63)}`), "failed");
  assert.equal(check("web3_sha3", `0x${"a".repeat(66)}`), "failed");
  assert.equal(check("eth_getStorageAt", "0x0"), "failed");
  assert.equal(check("eth_getCode", "0x123"), "failed");
  assert.equal(check("eth_call", "0x123"), "failed");
  assert.equal(check("eth_newFilter", "0x"), "failed");
  assert.equal(check("net_version", "01"), "failed");
  assert.equal(check("eth_syncing", true), "failed");
  assert.equal(check("eth_syncing", {}), "failed");
  assert.equal(check("eth_uninstallFilter", "true"), "failed");
  assert.equal(check("net_listening", "true"), "failed");
});

/** Members without which an answer is refused. */
const REQUIRED: Readonly<Record<string, readonly [name: string, members: readonly string[]]>> = {
  eth_getBlockByHash: ["hashes", ["hash", "parentHash", "number", "timestamp", "transactions", "stateRoot", "gasUsed"]],
  eth_getBlockByNumber: ["full", ["hash", "transactionsRoot", "receiptsRoot", "logsBloom", "extraData", "miner"]],
  eth_getTransactionByHash: ["legacy", ["hash", "nonce", "from", "to", "gas", "value", "input", "blockHash"]],
  eth_getTransactionByBlockHashAndIndex: ["first", ["hash", "from", "blockNumber", "transactionIndex"]],
  eth_getTransactionByBlockNumberAndIndex: ["first", ["hash", "from", "blockNumber", "transactionIndex"]],
  eth_getTransactionReceipt: ["with a log", ["transactionHash", "blockHash", "from", "gasUsed", "logs", "logsBloom"]],
  eth_getUncleByBlockHashAndIndex: ["of a proof-of-work block", ["hash", "parentHash", "number", "miner"]],
  eth_getUncleByBlockNumberAndIndex: ["of a proof-of-work block", ["hash", "parentHash", "number", "miner"]],
  eth_feeHistory: ["three blocks", ["oldestBlock", "gasUsedRatio"]],
  eth_getProof: [
    "with a slot",
    ["address", "accountProof", "balance", "codeHash", "nonce", "storageHash", "storageProof"],
  ],
  eth_createAccessList: ["of the contract", ["accessList", "gasUsed"]],
  txpool_status: ["empty", ["pending", "queued"]],
  eth_capabilities: ["full node", ["head", "state", "logs"]],
  eth_config: ["Prague", ["current"]],
};

test("an answer that lacks a member it must have is refused", () => {
  for (const [method, [name, members]] of Object.entries(REQUIRED)) {
    for (const member of members) {
      const bent = sample(method, name);
      assert.ok(member in bent, `${method} ${name} has no ${member}`);
      delete bent[member];
      assert.equal(check(method, bent), "failed", `${method} without ${member}`);
    }
  }
});

test("lists hold what they are lists of", () => {
  const [log = {}] = sample("eth_getLogs", "by topic") as unknown as Record<string, unknown>[];
  for (const method of ["eth_getLogs", "eth_getFilterLogs", "eth_getFilterChanges"]) {
    assert.equal(check(method, [log]), "passed");
    const { topics: _, ...bare } = log;
    assert.equal(check(method, [bare]), "failed", `${method} without topics`);
    assert.equal(check(method, [{ ...log, topics: Array(5).fill(log.transactionHash) }]), "failed");
    assert.equal(check(method, [{ ...log, data: "0x1" }]), "failed");
    assert.equal(check(method, log), "failed");
  }
  assert.equal(check("eth_getFilterChanges", [log, log.transactionHash]), "failed", "logs mixed with hashes");
  const block = sample("eth_getBlockByNumber", "full");
  const transactions = block.transactions as unknown[];
  assert.equal(check("eth_getBlockByNumber", { ...block, transactions: [...transactions, block.hash] }), "failed");
  const receipts = sample("eth_getBlockReceipts", "one") as unknown as Record<string, unknown>[];
  assert.equal(check("eth_getBlockReceipts", [{ ...receipts[0], status: "0x2" }]), "failed");
  assert.equal(check("eth_getBlockReceipts", receipts[0]), "failed");
  const history = sample("eth_feeHistory", "three blocks");
  assert.equal(check("eth_feeHistory", { ...history, gasUsedRatio: ["0x1"] }), "failed");
  assert.equal(check("eth_feeHistory", { ...history, gasUsedRatio: [-1] }), "failed");
  assert.equal(check("eth_feeHistory", { ...history, reward: [["1"]] }), "failed");
});

test("an answer that is larger than small is checked in milliseconds", () => {
  const block = sample("eth_getBlockByNumber", "full");
  const [transaction] = block.transactions as unknown[];
  const large = { ...block, transactions: Array(2_000).fill(transaction) };
  check("eth_getBlockByNumber", large);
  // The thread's own time: what others do on a busy machine is not in it.
  const before = process.threadCpuUsage();
  assert.equal(check("eth_getBlockByNumber", large), "passed");
  const { user, system } = process.threadCpuUsage(before);
  assert.ok(user + system < 500_000);
});

test("parameters that a node took are taken", () => {
  for (const { method, name, params } of recorded) {
    assert.deepEqual(checkParams(routeOf(method), method, params), { ok: true }, `${method}: ${name}`);
  }
});

const A = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
const H = `0x${"1".repeat(64)}`;

test("parameters that some node takes are taken", () => {
  const eth = routeOf("eth_call");
  const taken: readonly (readonly [string, unknown])[] = [
    ["eth_blockNumber", undefined],
    ["eth_blockNumber", null],
    ["eth_blockNumber", []],
    ["eth_getBalance", [A]],
    ["eth_getBalance", [A, null]],
    ["eth_getBalance", [A, 17]],
    ["eth_getBalance", [A, "0x00"]],
    ["eth_getBalance", [A, "safe"]],
    ["eth_getBalance", [A, { blockHash: H, requireCanonical: true }]],
    ["eth_getBalance", [A, { blockNumber: "0x1" }]],
    ["eth_getBalance", [A.toUpperCase().replace("0X", "0x"), "latest"]],
    ["eth_getBalance", ["one1a50tun737ulcvwy0yvve0pvu5skq0kjargvhwe", "latest"]],
    ["eth_call", [{ to: A, data: "0x" }]],
    ["eth_call", [{ to: A, input: "0x12", value: 0 }, "latest", { [A]: { balance: "0x1" } }, { number: "0x1" }]],
    ["eth_call", [{ to: null, data: "0x60", accessList: [], authorizationList: [] }, "pending"]],
    ["eth_estimateGas", [{}]],
    ["eth_getBlockByNumber", ["latest"]],
    ["eth_getBlockByNumber", ["committed", false]],
    ["eth_getLogs", [{ address: [A], topics: [null, H, [H, null]] }]],
    ["eth_getLogs", [{ blockHash: H, address: null, topics: null }]],
    ["eth_getStorageAt", [A, 0, "latest"]],
    ["eth_feeHistory", [4, "latest", null]],
    ["eth_feeHistory", ["4", "latest"]],
    ["eth_getProof", [A, [], "latest"]],
    ["eth_getFilterChanges", [`0x${"f".repeat(40)}`]],
  ];
  for (const [method, params] of taken) {
    assert.deepEqual(checkParams(eth, method, params), { ok: true }, `${method} ${JSON.stringify(params)}`);
  }
});

test("parameters that no node takes are refused, naming the place", () => {
  const eth = routeOf("eth_call");
  const refused: readonly (readonly [string, unknown, string])[] = [
    ["eth_getBalance", [], "params"],
    ["eth_getBalance", "0x", "params"],
    ["eth_getBalance", { address: A }, "params"],
    ["eth_getBalance", ["0x12", "latest"], "params[0]"],
    ["eth_getBalance", [A, "yesterday"], "params[1]"],
    ["eth_getBalance", [A, []], "params[1]"],
    ["eth_call", [{ to: "me" }, "latest"], "params[0].to"],
    ["eth_call", ["0x"], "params[0]"],
    ["eth_getBlockByHash", ["0x1", true], "params[0]"],
    ["eth_getBlockByNumber", ["latest", "yes"], "params[1]"],
    ["eth_getLogs", [{ topics: "all" }], "params[0].topics"],
    ["eth_getTransactionByBlockHashAndIndex", [H], "params"],
    ["web3_sha3", ["hello"], "params[0]"],
  ];
  for (const [method, params, path] of refused) {
    const verdict = checkParams(eth, method, params);
    assert.ok(!verdict.ok, `${method} ${JSON.stringify(params)}`);
    assert.equal(verdict.path, path, `${method} ${JSON.stringify(params)}: ${verdict.message}`);
  }
});
