import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { Ajv2020 } from "ajv/dist/2020.js";
import { createCatalogue, isWriteOperation } from "./catalogue.ts";
import { checkParams, checkResult, isVacuous } from "./check.ts";
import { COSMOS_RPC_METHODS, COSMOS_RPC_PATHS } from "./cosmos-rpc.ts";
import { EVM_COMMON_METHODS, EVM_EXTRA_METHODS } from "./evm-operations.ts";
import { CATEGORIES, SERVICE_ID_PATTERN } from "./override-schema.ts";
import type { Category, Operation, Service } from "./types.ts";

const catalogue = createCatalogue();
const all = [...catalogue.services.values()];
const chains = all.filter(({ category }) => category === "blockchain");

function service(id: string): Service {
  const found = catalogue.get(id);
  assert.ok(found, id);
  return found;
}

const having = (method: string): readonly string[] =>
  all.filter(({ operations }) => operations.has(method)).map(({ id }) => id);

test("101 networks, 62 free, every service paid, at least one service in each category", () => {
  assert.equal(chains.length, 101);
  assert.equal(all.filter(({ free }) => free).length, 62);
  assert.ok(all.every(({ paid }) => paid));
  assert.ok(all.filter(({ category }) => category !== "blockchain").every(({ free }) => !free));
  const counts = new Map<Category, number>();
  for (const { category } of all) counts.set(category, (counts.get(category) ?? 0) + 1);
  for (const category of CATEGORIES) assert.ok((counts.get(category) ?? 0) >= 1, category);
});

test("ids are slugs and unique, operation ids follow from them, prices are fixed", () => {
  assert.equal(new Set(all.map(({ operationId }) => operationId)).size, all.length);
  for (const { id, operationId, price, tags, category, network } of all) {
    assert.match(id, new RegExp(SERVICE_ID_PATTERN));
    assert.match(id, /^[a-z0-9][a-z0-9-]*$/);
    assert.equal(operationId, `call_${id.replaceAll("-", "_")}`);
    assert.equal(price, "0.005000");
    assert.ok(tags.includes(category) && tags.length <= 5 && new Set(tags).size === tags.length, id);
    if (id.endsWith("-testnet")) assert.equal(network, "testnet", id);
  }
});

test("networks carry their families and chain ids", () => {
  assert.deepEqual(
    [service("eth").evmChainId, service("base").evmChainId, service("tron").evmChainId, service("harmony").evmChainId],
    [1, 8453, 728_126_428, 1_666_600_000],
  );
  assert.deepEqual(service("kava").families, ["evm", "cosmos"]);
  assert.deepEqual([service("kava").evmChainId, service("kava").chainId], [2222, "kava_2222-10"]);
  assert.equal(service("osmosis").chainId, "osmosis-1");
  assert.equal(service("eth").syncAllowanceBlocks, 2);
  assert.deepEqual(service("eth-beacon").families, ["beacon"]);
  const families = new Set(all.flatMap((item) => item.families));
  assert.equal(families.size, 11);
  for (const { id, families: own, evmChainId } of chains) {
    if (own.includes("evm")) assert.ok(Number.isSafeInteger(evmChainId), id);
  }
});

test("every EVM route has the common methods (spec 4.1.2)", () => {
  assert.equal(EVM_COMMON_METHODS.length, 38);
  const evm = all.filter(({ families }) => families.includes("evm"));
  assert.equal(evm.length, 53);
  for (const { id, operations } of evm) {
    for (const method of EVM_COMMON_METHODS) assert.ok(operations.has(method), `${id}: ${method}`);
  }
});

test("the methods of spec 4.1.2's second table are on some routes, or on exactly one", () => {
  const one = ["debug_getBadBlocks", "debug_getRawBlock", "eth_capabilities", "eth_getBlockAccessList"].concat(
    "eth_getStorageValues",
  );
  assert.equal(EVM_EXTRA_METHODS.length, 15);
  for (const method of EVM_EXTRA_METHODS) {
    const on = having(method);
    const off = all.filter(({ families, operations }) => families.includes("evm") && !operations.has(method));
    assert.ok(on.length >= 1 && off.length >= 1, method);
    assert.equal(on.length === 1, one.includes(method), `${method}: ${on.join()}`);
  }
});

test("filters are made and used where they are", () => {
  const marks = [...service("eth").operations.values()].filter(({ filter }) => filter !== undefined);
  assert.deepEqual(Object.fromEntries(marks.map(({ name, filter }) => [name, filter])), {
    eth_getFilterChanges: "use",
    eth_getFilterLogs: "use",
    eth_newBlockFilter: "create",
    eth_newFilter: "create",
    eth_newPendingTransactionFilter: "create",
    eth_uninstallFilter: "use",
  });
});

test("Cosmos-style routes have the methods and paths of spec 4.1.3", () => {
  assert.deepEqual([COSMOS_RPC_METHODS.length, COSMOS_RPC_PATHS.length], [23, 19]);
  const cosmos = all.filter(({ families }) => families.includes("cosmos"));
  assert.equal(cosmos.length, 45);
  for (const { id, operations } of cosmos) {
    for (const method of COSMOS_RPC_METHODS) assert.equal(operations.get(method)?.rpcType, "comet_bft", id);
    for (const path of COSMOS_RPC_PATHS) assert.equal(operations.get(`GET ${path}`)?.rpcType, "comet_bft", id);
  }
  const lcd = [...service("osmosis").operations.values()].filter(({ rpcType }) => rpcType === "rest");
  const modules = new Map<string, number>();
  for (const { name } of lcd) {
    const [, first = "", second = ""] = name.split("/");
    const area = first === "cosmos" ? second : first;
    modules.set(area, (modules.get(area) ?? 0) + 1);
  }
  assert.deepEqual(Object.fromEntries(modules), {
    auth: 3,
    authz: 1,
    bank: 7,
    base: 7,
    distribution: 5,
    evidence: 1,
    feegrant: 1,
    gov: 6,
    mint: 3,
    params: 1,
    slashing: 2,
    staking: 9,
    tx: 3,
    upgrade: 3,
    ibc: 4,
    cosmwasm: 5,
  });
  assert.deepEqual(having("GET /akash/deployment/v1beta3/deployments/list"), ["akash"]);
  assert.ok(
    having("GET /cosmwasm/wasm/v1/code").length > 5 && !having("GET /cosmwasm/wasm/v1/code").includes("pocket"),
  );
  const namada = [...service("namada").operations.values()];
  assert.ok(namada.every(({ rpcType }) => rpcType === "comet_bft"));
});

test("no route writes", () => {
  for (const { id, operations } of all) {
    for (const name of operations.keys()) assert.ok(!isWriteOperation(name), `${id}: ${name}`);
  }
  for (const name of [
    "eth_sendRawTransaction",
    "eth_sendTransaction",
    "eth_sign",
    "eth_signTypedData_v4",
    "personal_unlockAccount",
    "anvil_setBalance",
    "evm_mine",
    "debug_setHead",
    "broadcast_tx_commit",
    "sendTransaction",
    "requestAirdrop",
    "send_tx",
    "sui_executeTransactionBlock",
    "sendrawtransaction",
    "POST /wallet/broadcasttransaction",
    "POST /transaction/submit",
    "POST /cosmos/tx/v1beta1/txs",
    "POST /eth/v1/beacon/pool/attestations",
  ]) {
    assert.ok(isWriteOperation(name), name);
  }
});

test("every schema is one in strict mode, and none takes any value", () => {
  const ajv = new Ajv2020({
    strict: true,
    strictRequired: false,
    strictTypes: true,
    strictTuples: false,
    allowUnionTypes: true,
  });
  const seen = new Set<unknown>();
  for (const { id, operations } of all) {
    for (const { name, params, result } of operations.values()) {
      if (result !== undefined) assert.ok(!isVacuous(result), `${id}: ${name}`);
      for (const schema of [params, result]) {
        if (typeof schema !== "object" || seen.has(schema)) continue;
        seen.add(schema);
        assert.ok(ajv.validateSchema(schema), `${id}: ${name}: ${ajv.errorsText()}`);
        ajv.compile(schema);
      }
    }
  }
});

test("every example is one that its operation takes", () => {
  for (const item of all) {
    const withExample = [...item.operations.values()].filter(({ example }) => example !== undefined);
    assert.ok(withExample.length >= 1, item.id);
    for (const { name, example = {} } of withExample) {
      const params = name === "POST /" ? example : example.params;
      assert.deepEqual(checkParams(item, name, params), { ok: true }, `${item.id}: ${name}`);
      if (name !== "POST /") assert.ok(item.operations.has(String(example.method)), item.id);
    }
  }
});

test("document-digest: its request and answer", () => {
  const digest = service("document-digest");
  const params = (body: unknown): boolean => checkParams(digest, "POST /", body).ok;
  assert.ok(params({ text: "x".repeat(65_536), algorithms: ["sha256", "sha512", "sha3-256", "blake2b512"] }));
  for (const body of [
    {},
    { text: "" },
    { text: "x".repeat(65_537) },
    { text: "x", algorithms: [] },
    { text: "x", algorithms: ["md5"] },
    { text: "x", algorithms: ["sha256", "sha256"] },
    { text: "x", other: 1 },
    { text: 1 },
  ]) {
    assert.ok(!params(body), JSON.stringify(body).slice(0, 60));
  }
  const good = { bytes: 1, characters: 1, words: 1, lines: 1, digests: { sha256: "a".repeat(64) } };
  const result = (body: unknown): string => checkResult(digest, "POST /", body);
  assert.equal(result(good), "passed");
  assert.equal(result({ ...good, digests: { sha512: "a".repeat(128) } }), "passed");
  for (const bent of [
    { ...good, bytes: -1 },
    { ...good, words: "1" },
    { ...good, digests: { md5: "a" } },
    { ...good, digests: { sha256: "xyz" } },
    { ...good, more: 1 },
  ]) {
    assert.equal(result(bent), "failed", JSON.stringify(bent));
  }
});

test("search: its request and answer", () => {
  const search = service("search");
  assert.equal(search.maxBodyBytes, 16_384);
  assert.ok(checkParams(search, "POST /", { query: "x", max_results: 1_000_000 }).ok);
  assert.deepEqual(checkParams(search, "POST /", {}), { ok: false, path: "params.query", message: "is required" });
  assert.deepEqual(checkParams(search, "POST /", { query: "x", max_results: 0 }), {
    ok: false,
    path: "params.max_results",
    message: "must be >= 1",
  });
  assert.equal(checkResult(search, "POST /", { query: "x", results: [{ title: "y" }], took: 3 }), "passed");
  assert.equal(checkResult(search, "POST /", { query: "x", results: ["y"] }), "failed");
  assert.equal(checkResult(search, "POST /", { results: [] }), "failed");
});

test("a schema that takes any value counts as undeclared", () => {
  const vacuous = [true, {}, { description: "any" }, { anyOf: [{ type: "object" }, true] }] as const;
  const types = { type: ["null", "boolean", "number", "string", "array", "object"] };
  for (const [index, result] of [...vacuous, types].entries()) {
    const operation: Operation = { name: "GET /x", rpcType: "rest", description: "x", result, read: true };
    const { services } = createCatalogue({ overrides: { bitcoin: { addOperations: [operation] } } });
    const bitcoin = [...services.values()].find(({ id }) => id === "bitcoin");
    assert.ok(bitcoin);
    assert.equal(checkResult(bitcoin, "GET /x", { any: 1 }), "undeclared", String(index));
  }
  assert.equal(checkResult(service("eth"), "eth_noSuchMethod", 1), "undeclared");
});

test("an operator changes, adds and takes away services", () => {
  const operation: Operation = {
    name: "getthing",
    rpcType: "json_rpc",
    read: true,
    description: "A thing.",
    result: { type: "string" },
  };
  const changed = createCatalogue({
    overrides: {
      eth: { evmChainId: 84_532, name: "Local", price: "0.01", removeOperations: ["eth_config"], free: false },
      bitcoin: { addOperations: [operation], iconUrl: "https://img.example/b.png" },
      near: { operations: [operation] },
      hey: { enabled: false },
      search: { category: "ai" },
    },
    added: [{ id: "my-chain", name: "Mine", description: "My chain.", category: "blockchain", families: ["evm"] }],
  });
  const eth = changed.get("eth");
  assert.deepEqual([eth?.evmChainId, eth?.name, eth?.price, eth?.free], [84_532, "Local", "0.010000", false]);
  assert.ok(eth?.operations.has("eth_call") && !eth.operations.has("eth_config"));
  assert.ok(service("eth").operations.has("eth_config"), "the built-in one is untouched");
  assert.ok(changed.get("bitcoin")?.operations.has("getthing") && changed.get("bitcoin")?.operations.has("getblock"));
  assert.deepEqual([...(changed.get("near")?.operations.keys() ?? [])], ["getthing"]);
  assert.equal(changed.get("hey"), undefined);
  assert.deepEqual(changed.get("search")?.tags, ["ai"]);
  const mine = changed.get("my-chain");
  assert.deepEqual([mine?.operationId, mine?.operations.size, mine?.paid], ["call_my_chain", 38, true]);
});

test("a change that is not valid is refused, naming its path", () => {
  const refuses = (opts: unknown, path: string): void => {
    assert.throws(
      () => createCatalogue(opts as Parameters<typeof createCatalogue>[0]),
      (error) => isAppError(error, "CONFIG_INVALID") && error.message.startsWith(`${path}:`),
      path,
    );
  };
  const bad = (eth: unknown): unknown => ({ overrides: { eth } });
  const operation = { name: "eth_x", rpcType: "json_rpc", description: "x", read: true };
  refuses({ overrides: { nosuch: {} } }, "catalogue.overrides.nosuch");
  refuses(bad({ prise: "1" }), "catalogue.overrides.eth.prise");
  refuses(bad({ price: "free" }), "catalogue.overrides.eth.price");
  refuses(bad({ price: "0.000000" }), "catalogue.overrides.eth.price");
  refuses(bad({ price: 1 }), "catalogue.overrides.eth.price");
  refuses(bad({ category: "games" }), "catalogue.overrides.eth.category");
  refuses(bad({ maxBodyBytes: 0 }), "catalogue.overrides.eth.maxBodyBytes");
  refuses(bad({ removeOperations: ["eth_nope"] }), "catalogue.overrides.eth.removeOperations");
  refuses(
    bad({ addOperations: [{ ...operation, name: "eth_sendRawTransaction" }] }),
    "catalogue.overrides.eth.addOperations[0].name",
  );
  refuses(
    bad({ addOperations: [{ ...operation, name: "two words" }] }),
    "catalogue.overrides.eth.addOperations.0.name",
  );
  refuses(
    bad({ addOperations: [{ ...operation, result: { type: "text" } }] }),
    "catalogue.overrides.eth.addOperations[0].result",
  );
  refuses(
    bad({ addOperations: [{ ...operation, params: { $ref: "#/nope" } }] }),
    "catalogue.overrides.eth.addOperations[0].params",
  );
  const added = { id: "x", name: "X", description: "x", category: "ai", families: ["http"] };
  refuses({ added: [added] }, "catalogue.services.x.operations");
  refuses({ added: [{ ...added, id: "eth" }] }, "catalogue.services.eth.id");
  refuses({ added: [{ ...added, id: "Not_Slug" }] }, "catalogue.services.Not_Slug.id");
  const reserved = { id: "key", name: "K", description: "x", category: "blockchain", families: ["evm"] } as const;
  refuses({ added: [reserved] }, "catalogue.services.key.id");
  assert.throws(() => createCatalogue({ added: [{ ...reserved, families: ["evm"] }] }), /\/relay\/key\/ is a path/);
  refuses({ added: [{ ...added, families: ["ftp"] }] }, "catalogue.services.x.families.0");
  refuses({ added: [{ id: "x", name: "X" }] }, "catalogue.services.x.description");
});

test("a chain's operation is a known read, or the operator says that it is one; a write stays a write", () => {
  const add = (id: string, name: string, more: object = {}): (() => unknown) => {
    const operation: Operation = { name, rpcType: "json_rpc", description: "x", ...more };
    return () => createCatalogue({ overrides: { [id]: { addOperations: [operation] } } });
  };
  for (const name of ["eth_unlockEverything", "getblock", "mystery"]) {
    assert.throws(add("eth", name), /addOperations\[0\]\.name: .* is not known as a read.*read: true/, name);
    assert.throws(add("eth", name, { read: false }), /not known as a read/);
    assert.doesNotThrow(add("eth", name, { read: true }), name);
  }
  assert.doesNotThrow(add("eth", "eth_getLogs"));
  assert.doesNotThrow(add("search", "GET /other", { rpcType: "rest" }), "a service that is no chain has no such list");
  assert.throws(add("eth", "eth_sendRawTransaction", { read: true }), /is a write/);
  const added = { id: "mine", name: "Mine", description: "x", category: "blockchain", families: ["evm"] } as const;
  const operation: Operation = { name: "my_doThing", rpcType: "json_rpc", description: "x" };
  assert.throws(() => createCatalogue({ added: [{ ...added, operations: [operation] }] }), /not known as a read/);
});

test("other families bring their own operations", () => {
  const changed = createCatalogue({ overrides: { eth: { families: ["bitcoin"] }, near: { families: ["near"] } } });
  const eth = changed.get("eth");
  assert.ok(eth?.operations.has("getblock") && !eth.operations.has("eth_call"));
  assert.deepEqual(changed.get("near")?.operations, service("near").operations, "the same families change nothing");
  assert.throws(
    () => createCatalogue({ overrides: { eth: { families: ["http"] } } }),
    /catalogue\.overrides\.eth\.operations: is required for this family/,
  );
});

test("every change that is not valid is named, not the first alone", () => {
  assert.throws(
    () => createCatalogue({ overrides: { nosuch: {}, eth: { price: "0.000000" }, near: { tags: [] } } }),
    (error) =>
      isAppError(error, "CONFIG_INVALID") && /nosuch: .*\ncatalogue\.overrides\.eth\.price: /.test(error.message),
  );
});

test("schemas of many operations cost one compilation of the meta-schema", () => {
  const addOperations = Array.from({ length: 60 }, (_, at): Operation => {
    const result = { type: "object", properties: { [`member${at}`]: { type: "string" } }, required: [`member${at}`] };
    return { name: `getthing${at}`, rpcType: "json_rpc", description: "x", read: true, result };
  });
  // The thread's own time: what others do on a busy machine is not in it.
  const tookMs = (work: () => unknown): number => {
    const before = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1_000;
  };
  const meta = (): unknown => new Ajv2020({ strict: false }).validateSchema({ type: "object" });
  const add = (operations: readonly Operation[]) => (): unknown =>
    createCatalogue({ overrides: { bitcoin: { addOperations: operations } } });
  // all code is warm before the clock runs
  for (const work of [meta, meta, meta, add(addOperations.slice(0, 3))]) work();
  const metaMs = tookMs(meta);
  const allMs = tookMs(add(addOperations.slice(3)));
  assert.ok(allMs < 25 * metaMs, `${allMs} ms, and ${metaMs} ms for one meta-schema`);
  const endless: Operation = { name: "getx", rpcType: "json_rpc", description: "x", read: true, result: { $ref: "#" } };
  assert.throws(() => createCatalogue({ overrides: { bitcoin: { addOperations: [endless] } } }), /is no JSON Schema/);
});

test("a hostile name is looked up without harm", () => {
  for (const id of ["__proto__", "constructor", "toString", ""]) assert.equal(catalogue.get(id), undefined);
});
