import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { fc } from "@turnpike/testkit/property";
import type { CallInput, ParsedCall } from "./family.ts";
import { familyOf, isListed, parsePaid } from "./registry.ts";

const catalogue = createCatalogue({});
function service(id: string): Service {
  const found = catalogue.services.get(id as ServiceId);
  assert.ok(found !== undefined, id);
  return found;
}

interface Wish {
  readonly verb?: "GET" | "POST";
  readonly path?: string;
  readonly query?: string;
  readonly body?: unknown;
}

function parse(id: string, wish: Wish): ParsedCall {
  const { verb = "POST", path = "", query = "", body } = wish;
  const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
  const input: CallInput = { verb, appendedPath: path, query, body: Buffer.from(text) };
  return parsePaid(service(id), input);
}

function call(id: string, wish: Wish): Extract<ParsedCall, { ok: true }>["call"] {
  const parsed = parse(id, wish);
  assert.ok(parsed.ok, JSON.stringify(parsed));
  return parsed.call;
}

const refusal = (id: string, wish: Wish): string => {
  const parsed = parse(id, wish);
  return parsed.ok ? `ok ${parsed.call.operation}` : parsed.code;
};
const bodyOf = (id: string, body: unknown): string => Buffer.from(call(id, { body }).body ?? []).toString();

test("EVM: jsonrpc, id and params are filled in, known members are kept byte for byte, others dropped", () => {
  assert.equal(
    bodyOf("eth", { method: "eth_blockNumber" }),
    '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}',
  );
  assert.equal(
    bodyOf(
      "eth",
      '{"x":1,"id" : "a b","params":[ "0x0000000000000000000000000000000000000001",\n"latest"],"method":"eth_getBalance"}',
    ),
    '{"jsonrpc":"2.0","id":"a b","method":"eth_getBalance","params":[ "0x0000000000000000000000000000000000000001",\n"latest"]}',
  );
  assert.equal(call("eth", { body: { method: "eth_chainId", params: null } }).rpcType, "json_rpc");
  assert.equal(call("eth", { body: { method: "eth_chainId", id: -7 } }).id, "-7");
});

test("an id is as long as the body may be; half a surrogate pair anywhere is a malformed request", () => {
  const long = `"${"x".repeat(4_000)}"`;
  assert.equal(call("eth", { body: `{"method":"eth_chainId","id":${long}}` }).clientId, long);
  for (const body of ['{"method":"eth_getBalance","params":["\\ud800"]}', '{"method":"eth_chainId","id":"\\uDFFF"}']) {
    assert.equal(refusal("eth", { body }), "MALFORMED_REQUEST", body);
  }
  assert.equal(refusal("search", { body: '{"query":"\\udead"}' }), "VALIDATION_FAILED");
  assert.equal(refusal("search", { body: '{"query":"\\ud83d\\ude00"}' }), "ok POST /");
});

test("ids that nodes change are withheld and passed to relay", () => {
  for (const id of ["null", "1.5", "1e3", "123456789012345678901234567890", '"\\u0061"', '"é"', "-0"]) {
    const made = call("eth", { body: `{"method":"eth_chainId","id":${id}}` });
    assert.equal(made.id, "1", id);
    assert.equal(made.clientId, id);
    assert.match(Buffer.from(made.body ?? []).toString(), /"id":1,/);
  }
  for (const id of ["0", "999999999999999", '"abc-1"', '""']) {
    const made = call("eth", { body: `{"method":"eth_chainId","id":${id}}` });
    assert.equal(made.id, id);
    assert.equal(made.clientId, undefined);
  }
});

const REFUSED: readonly (readonly [string, Wish, string])[] = [
  ["no body", {}, "BODY_REQUIRED"],
  ["not JSON", { body: "{" }, "INVALID_JSON"],
  ["not UTF-8 JSON", { body: "nul" }, "INVALID_JSON"],
  ["a batch", { body: [{ method: "eth_chainId" }] }, "BATCH_NOT_SOLD"],
  ["an empty batch", { body: [] }, "BATCH_NOT_SOLD"],
  ["a string", { body: '"eth_chainId"' }, "MALFORMED_REQUEST"],
  ["method twice", { body: '{"method":"eth_chainId","method":"eth_sendRawTransaction"}' }, "DUPLICATE_KEY"],
  ["params twice", { body: '{"method":"eth_chainId","params":[],"params":[]}' }, "DUPLICATE_KEY"],
  ["id twice", { body: '{"method":"eth_chainId","id":1,"\\u0069d":2}' }, "DUPLICATE_KEY"],
  ["no method", { body: { params: [] } }, "MALFORMED_REQUEST"],
  ["a method that is no string", { body: { method: 1 } }, "MALFORMED_REQUEST"],
  ["a write", { body: { method: "eth_sendRawTransaction", params: ["0x00"] } }, "METHOD_NOT_ALLOWED"],
  ["a node's control", { body: { method: "anvil_setBalance", params: [] } }, "METHOD_NOT_ALLOWED"],
  ["a member of Object", { body: { method: "__proto__" } }, "METHOD_NOT_ALLOWED"],
  ["constructor", { body: { method: "constructor" } }, "METHOD_NOT_ALLOWED"],
  ["another letter case", { body: { method: "ETH_chainId" } }, "METHOD_NOT_ALLOWED"],
  ["jsonrpc 1.0", { body: { method: "eth_chainId", jsonrpc: "1.0" } }, "MALFORMED_REQUEST"],
  ["an object as id", { body: { method: "eth_chainId", id: {} } }, "MALFORMED_REQUEST"],
  ["true as id", { body: { method: "eth_chainId", id: true } }, "MALFORMED_REQUEST"],
  ["a text as params", { body: { method: "eth_chainId", params: "x" } }, "INVALID_PARAMS"],
  ["params that no node takes", { body: { method: "eth_getBalance", params: [5] } }, "INVALID_PARAMS"],
  ["GET", { verb: "GET" }, "VERB_NOT_ALLOWED"],
  ["a path", { path: "/status" }, "NOT_FOUND"],
  ["dot segments", { path: "/../eth" }, "BAD_PATH"],
  ["a trailing slash", { path: "/" }, "BAD_PATH"],
  ["GET as method", { body: { method: "GET /status" } }, "METHOD_NOT_ALLOWED"],
];
for (const [name, wish, code] of REFUSED) {
  test(`EVM refuses ${name}: ${code}`, () => assert.equal(refusal("eth", wish), code));
}

const ADDRESS = "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz";
const FORMS: readonly (readonly [string, Wish, string])[] = [
  [
    "a bare method",
    { body: { method: "status" } },
    'comet_bft POST  status {"jsonrpc":"2.0","id":1,"method":"status","params":{}}',
  ],
  [
    "a bare method with params",
    { body: { method: "block", params: { height: "5" }, id: "x" } },
    'comet_bft POST  block {"jsonrpc":"2.0","id":"x","method":"block","params":{"height":"5"}}',
  ],
  [
    "GET <path> of the consensus engine",
    { body: { method: "GET /block?height=5" } },
    "comet_bft GET /block?height=5 GET /block ",
  ],
  [
    "GET <path> with what a URL cannot hold",
    { body: { method: 'GET /tx_search?query="tx.height=5"' } },
    "comet_bft GET /tx_search?query=%22tx.height=5%22 GET /tx_search ",
  ],
  [
    "GET <path> of the REST API",
    { body: { method: `GET /cosmos/bank/v1beta1/balances/${ADDRESS}`, params: {} } },
    `rest GET /cosmos/bank/v1beta1/balances/${ADDRESS} GET /cosmos/bank/v1beta1/balances/{address} `,
  ],
  ["GET with a path", { verb: "GET", path: "/status" }, "comet_bft GET /status GET /status "],
  ["POST with a path", { path: "/status" }, "comet_bft GET /status GET /status "],
  [
    "POST with a path and {}",
    { path: "/block", query: "?height=5", body: {} },
    "comet_bft GET /block?height=5 GET /block ",
  ],
  [
    "POST with a path and the same method",
    { path: "/block", query: "?height=5", body: { method: "block" } },
    "comet_bft GET /block?height=5 GET /block ",
  ],
  [
    "a literal goes before a value",
    { verb: "GET", path: "/cosmos/base/tendermint/v1beta1/blocks/latest" },
    "rest GET /cosmos/base/tendermint/v1beta1/blocks/latest GET /cosmos/base/tendermint/v1beta1/blocks/latest ",
  ],
  [
    "a value",
    { verb: "GET", path: "/cosmos/base/tendermint/v1beta1/blocks/5" },
    "rest GET /cosmos/base/tendermint/v1beta1/blocks/5 GET /cosmos/base/tendermint/v1beta1/blocks/{height} ",
  ],
  [
    "an encoded slash inside a value",
    { verb: "GET", path: "/cosmos/upgrade/v1beta1/applied_plan/a%2Fb" },
    "rest GET /cosmos/upgrade/v1beta1/applied_plan/a%2Fb GET /cosmos/upgrade/v1beta1/applied_plan/{name} ",
  ],
  ["an encoded letter of a literal", { verb: "GET", path: "/st%61tus" }, "comet_bft GET /status GET /status "],
];
for (const [name, wish, expected] of FORMS) {
  test(`Cosmos-style: ${name}`, () => {
    const made = call("pocket", wish);
    const body = made.body === undefined ? "" : Buffer.from(made.body).toString();
    assert.equal(`${made.rpcType} ${made.verb} ${made.path} ${made.operation} ${body}`, expected);
  });
}

const COSMOS_REFUSED: readonly (readonly [string, Wish, string])[] = [
  ["an unlisted path", { verb: "GET", path: "/broadcast_tx_sync" }, "NOT_FOUND"],
  ["an unlisted path as method", { body: { method: "GET /unsafe_flush_mempool" } }, "METHOD_NOT_ALLOWED"],
  ["a write", { body: { method: "broadcast_tx_sync", params: {} } }, "METHOD_NOT_ALLOWED"],
  ["POST <path> of a GET path", { body: { method: "POST /cosmos/tx/v1beta1/txs" } }, "METHOD_NOT_ALLOWED"],
  ["dot segments as method", { body: { method: "GET /status/../broadcast_tx_sync" } }, "BAD_PATH"],
  ["encoded dot segments", { verb: "GET", path: "/cosmos/bank/v1beta1/balances/%2e%2e" }, "BAD_PATH"],
  ["an encoded slash between literals", { verb: "GET", path: "/cosmos%2Fbank/v1beta1/params" }, "NOT_FOUND"],
  ["the text of a template", { body: { method: "GET /cosmos/bank/v1beta1/balances/{address}" } }, "BAD_PATH"],
  ["an EVM method", { body: { method: "eth_chainId" } }, "METHOD_NOT_ALLOWED"],
  ["a fragment", { body: { method: "GET /status#x" } }, "BAD_PATH"],
  ["a line break in the query", { body: { method: "GET /status?a\r\nX: y" } }, "BAD_PATH"],
  ["arguments in params", { body: { method: "GET /block", params: { height: "5" } } }, "INVALID_PARAMS"],
  ["another call in the body", { path: "/status", body: { method: "genesis" } }, "MALFORMED_REQUEST"],
  ["a batch with a path", { path: "/status", body: [] }, "BATCH_NOT_SOLD"],
  ["junk with a path", { path: "/status", body: "{" }, "INVALID_JSON"],
  ["lower-case get", { body: { method: "get /status" } }, "METHOD_NOT_ALLOWED"],
  ["a template's name as bare method", { body: { method: "GET" } }, "METHOD_NOT_ALLOWED"],
];
for (const [name, wish, code] of COSMOS_REFUSED) {
  test(`Cosmos-style refuses ${name}: ${code}`, () => assert.equal(refusal("pocket", wish), code));
}

test("on a network of two families the method decides", () => {
  assert.equal(call("kava", { body: { method: "eth_chainId" } }).rpcType, "json_rpc");
  assert.equal(call("kava", { body: { method: "status" } }).rpcType, "comet_bft");
  assert.equal(call("kava", { verb: "GET", path: "/cosmos/bank/v1beta1/params" }).rpcType, "rest");
  assert.deepEqual(
    [familyOf(service("kava"), "json_rpc").id, familyOf(service("kava"), "comet_bft").id],
    ["evm", "cosmos"],
  );
});

test("listed paths", () => {
  const pocket = service("pocket");
  for (const path of ["", "/status", "/cosmos/tx/v1beta1/txs/ABC"]) assert.ok(isListed(pocket, path), path);
  for (const path of ["/", "/nosuch", "/cosmos/tx/v1beta1/txs/a/b", "/status/..", "/status%2Fx"]) {
    assert.ok(!isListed(pocket, path), path);
  }
  assert.ok(!isListed(service("eth"), "/status"));
});

test("every listed path of every service is callable in each of its forms, and only by its own operation", () => {
  for (const found of catalogue.services.values()) {
    // The body of its route is a query, never a method; its paths have a test of their own.
    if (found.id === "search") continue;
    for (const { name } of found.operations.values()) {
      const [verb, template] = name.split(" ") as ["GET" | "POST", string | undefined];
      if (template === undefined || template === "/") continue;
      const path = template.replace(/\{[^}]+\}/g, "x1");
      const appended = parsePaid(found, {
        verb,
        appendedPath: path,
        query: "",
        body: Buffer.from(verb === "POST" ? "{}" : ""),
      });
      const named = parsePaid(found, {
        verb: "POST",
        appendedPath: "",
        query: "",
        body: Buffer.from(JSON.stringify({ method: `${verb} ${path}` })),
      });
      for (const parsed of [appended, named]) {
        if (!parsed.ok) assert.equal(parsed.code, "INVALID_PARAMS", `${found.id} ${name} ${JSON.stringify(parsed)}`);
        else assert.deepEqual([parsed.call.operation, parsed.call.path], [name, path]);
      }
    }
  }
});

test("families that speak JSON-RPC accept their own methods only", () => {
  for (const [id, method] of [
    ["solana", "getSlot"],
    ["near", "status"],
    ["sui", "sui_getLatestCheckpointSequenceNumber"],
    ["tron", "eth_blockNumber"],
  ] as const) {
    assert.equal(call(id, { body: { method } }).operation, method);
    assert.equal(refusal(id, { body: { method: "eth_sendRawTransaction", params: ["0x"] } }), "METHOD_NOT_ALLOWED");
  }
  const made = call("tron", { path: "/wallet/getnowblock" });
  assert.deepEqual(
    [made.verb, made.path, Buffer.from(made.body ?? []).toString()],
    ["POST", "/wallet/getnowblock", "{}"],
  );
  const named = call("radix", { body: { method: "POST /state/entity/details", params: { addresses: ["a"] } } });
  assert.deepEqual(
    [named.path, Buffer.from(named.body ?? []).toString()],
    ["/state/entity/details", '{"addresses":["a"]}'],
  );
});

const detail = (body: unknown): unknown => {
  const parsed = parse("search", { body });
  assert.ok(!parsed.ok);
  assert.equal(parsed.code, "VALIDATION_FAILED");
  return parsed.detail;
};
const one = (type: string, msg: string, ...loc: string[]): unknown => [{ loc: ["body", ...loc], msg, type }];

test("search: validation errors as FastAPI shows them", () => {
  assert.deepEqual(detail({}), one("missing", "Field required", "query"));
  assert.deepEqual(detail({ query: 1 }), one("string_type", "Input should be a valid string", "query"));
  assert.deepEqual(detail({ query: "" }), one("string_too_short", "String should have at least 1 character", "query"));
  assert.deepEqual(
    detail({ query: "x", max_results: 0 }),
    one("greater_than_equal", "Input should be greater than or equal to 1", "max_results"),
  );
  assert.deepEqual(
    detail({ query: "x", max_results: 1.5 }),
    one("int_from_float", "Input should be a valid integer, got a number with a fractional part", "max_results"),
  );
  for (const wrong of ["5", null, true, []]) {
    assert.deepEqual(
      detail({ query: "x", max_results: wrong }),
      one("int_type", "Input should be a valid integer", "max_results"),
    );
  }
  assert.deepEqual(detail("{"), one("json_invalid", "JSON decode error"));
  assert.deepEqual(detail(undefined), one("missing", "Field required"));
  assert.deepEqual((detail({ max_results: -1 }) as readonly unknown[]).length, 2);
  assert.equal(refusal("search", { body: [] }), "BATCH_NOT_SOLD");
  assert.equal(refusal("search", { body: '{"query":"a","query":"b"}' }), "DUPLICATE_KEY");
});

test("search: 16,384 bytes pass and 16,385 do not; large wishes are capped, never refused", () => {
  const sized = (bytes: number): string => {
    const empty = JSON.stringify({ query: "" });
    return JSON.stringify({ query: "x".repeat(bytes - empty.length) });
  };
  assert.equal(refusal("search", { body: sized(16_384) }), "ok POST /");
  assert.equal(refusal("search", { body: sized(16_385) }), "BODY_TOO_LARGE");
  for (const wish of ["51", "1e3", "99999999999999999999", "1e400"]) {
    const made = call("search", { body: `{"query":"caf\\u00e9","max_results":${wish}}` });
    assert.equal(Buffer.from(made.body ?? []).toString(), '{"query":"caf\\u00e9","max_results":50}');
    assert.equal(made.path, "/v1/search");
  }
  assert.equal(bodyOf("search", { query: "x", max_results: 7.0 }), '{"query":"x","max_results":7}');
  assert.equal(bodyOf("search", { query: "x" }), '{"query":"x"}');
});

test("search: its other operations are paths", () => {
  assert.equal(call("search", { verb: "GET", path: "/v1/version" }).path, "/v1/version");
  assert.equal(call("search", { path: "/v1/search", body: { query: "x" } }).path, "/v1/search");
  assert.equal(refusal("search", { path: "/v1/search", body: {} }), "VALIDATION_FAILED");
  assert.equal(refusal("search", { verb: "GET", path: "/v1/search" }), "VERB_NOT_ALLOWED");
  assert.equal(refusal("search", { path: "/v1/nosuch" }), "NOT_FOUND");
});

test("HTTP services: the body is the route's own, held to its schema", () => {
  const made = call("document-digest", { body: { text: "The quick brown fox" } });
  assert.deepEqual([made.verb, made.path, made.operation], ["POST", "", "POST /"]);
  assert.equal(refusal("document-digest", { body: { text: 5 } }), "INVALID_PARAMS");
  const said = (body: unknown): string => {
    const parsed = parse("document-digest", { body });
    return parsed.ok ? "" : (parsed.message ?? "");
  };
  const pointer = "A body that it takes is `example` of the service in /services.json.";
  assert.equal(said({}), `\`text\` is required. ${pointer}`);
  assert.equal(said({ text: "a", algorithms: "sha1" }).startsWith("`algorithms` must"), true);
  assert.match(said({ text: "a", algorithms: [7] }), /^`algorithms\[0\]` must/);
  assert.equal(refusal("document-digest", { body: [] }), "BATCH_NOT_SOLD");
  assert.equal(refusal("document-digest", {}), "BODY_REQUIRED");
});

test("no bytes make the validator throw, and what it accepts is a listed operation", () => {
  const services = ["eth", "pocket", "kava", "solana", "tron", "radix", "search", "document-digest"].map(service);
  const method = fc.constantFrom(
    "eth_call",
    "status",
    "GET /status",
    "GET /block?height=1",
    "POST /wallet/getnowblock",
    "__proto__",
    "GET /../x",
    "GET ",
  );
  const object = fc.record(
    {
      method,
      params: fc.jsonValue(),
      id: fc.jsonValue(),
      jsonrpc: fc.constantFrom("2.0", "1.0", 2),
      query: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text)),
    object.map((value) => Buffer.from(JSON.stringify(value))),
    fc.tuple(fc.nat(3_000), fc.constantFrom("[", '{"a":')).map(([depth, open]) => Buffer.from(open.repeat(depth))),
  );
  const path = fc.oneof(
    fc.constantFrom("", "/", "/status", "/wallet/getnowblock", "/cosmos/tx/v1beta1/txs/%2e"),
    fc.string({ maxLength: 30 }),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...services),
      fc.constantFrom("GET" as const, "POST" as const),
      path,
      fc.constantFrom("", "?a=b", "?%"),
      body,
      (found, verb, appendedPath, query, bytes) => {
        const parsed = parsePaid(found, { verb, appendedPath, query, body: bytes });
        if (!parsed.ok) return;
        assert.ok(found.operations.has(parsed.call.operation));
        if (parsed.call.body !== undefined) JSON.parse(Buffer.from(parsed.call.body).toString());
      },
    ),
    { numRuns: 5_000 },
  );
});
