import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { type Recorded, readRecorded, recordedText } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import { responseOf } from "../../test/response.ts";
import { parsePaid } from "../families/registry.ts";
import { parseAnswer } from "./parsed-answer.ts";

const catalogue = createCatalogue({});
const MIB = 1_048_576;
function service(id: string): Service {
  const found = catalogue.services.get(id as ServiceId);
  assert.ok(found !== undefined, id);
  return found;
}

/** `good:<check>`, `error:<check>` or `<blame>:<reason>`. */
function verdict(id: string, request: unknown, body: string | Uint8Array, status = 200, maxCheckedBytes = MIB): string {
  const found = service(id);
  const path = typeof request === "string" ? request : "";
  const bytes = typeof request === "string" ? Buffer.alloc(0) : Buffer.from(JSON.stringify(request));
  const [appendedPath = "", query] = path.split("?");
  const parsed = parsePaid(found, {
    verb: path === "" ? "POST" : "GET",
    appendedPath,
    query: query === undefined ? "" : `?${query}`,
    body: bytes,
  });
  assert.ok(parsed.ok, JSON.stringify(parsed));
  const source = { call: parsed.call, response: responseOf(body, status), operator: "a" };
  const read = parseAnswer(found, source, maxCheckedBytes);
  if (!read.ok) return `${read.blame}:${read.reason}`;
  return `${read.isError ? "error" : "good"}:${read.schemaCheck}`;
}

const HEIGHT = { method: "eth_blockNumber" };
const rpc = (rest: string): string => `{"jsonrpc":"2.0","id":1,${rest}}`;
const fault = (code: number, message: string): string => rpc(`"error":${JSON.stringify({ code, message })}`);

const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);

const ENVELOPES: readonly (readonly [string, string | Uint8Array, string])[] = [
  ["a result", rpc('"result":"0x10"'), "good:passed"],
  [
    "a result with white space and more members",
    ' {"id":1, "result" : "0x10","jsonrpc":"2.0","x":{"result":[]}}\n',
    "good:passed",
  ],
  ["a result that does not fit", rpc('"result":"10"'), "supplier:schema"],
  ["null where there must be a value", rpc('"result":null'), "supplier:schema"],
  ["neither result nor error", '{"jsonrpc":"2.0","id":1}', "supplier:both_or_neither"],
  ["both", rpc('"result":"0x1","error":{"code":3,"message":"x"}'), "supplier:both_or_neither"],
  ["a result and error null", rpc('"result":"0x1","error":null'), "supplier:both_or_neither"],
  ["two results", rpc('"result":"0x1","result":"0x2"'), "supplier:no_jsonrpc"],
  ["no jsonrpc", '{"id":1,"result":"0x1"}', "supplier:no_jsonrpc"],
  ["jsonrpc as a number", '{"jsonrpc":2.0,"id":1,"result":"0x1"}', "supplier:no_jsonrpc"],
  ["another id", '{"jsonrpc":"2.0","id":2,"result":"0x1"}', "supplier:wrong_id"],
  ["the id as text", '{"jsonrpc":"2.0","id":"1","result":"0x1"}', "supplier:wrong_id"],
  ["no id", '{"jsonrpc":"2.0","result":"0x1"}', "supplier:wrong_id"],
  ["a result of 2,499 levels", rpc(`"result":"0x1","x":${nested(2_499)}`), "good:passed"],
  ["attack: a result of 3,000 levels", rpc(`"result":${nested(3_000)}`), "supplier:not_json"],
  [
    "attack: an error's data of 3,000 levels",
    rpc(`"error":{"code":3,"message":"execution reverted","data":${nested(3_000)}}`),
    "supplier:not_json",
  ],
  ["attack: millions of values", rpc(`"result":[${"{},".repeat(2_000_000)}{}]`), "supplier:too_large"],
  ["a batch", '[{"jsonrpc":"2.0","id":1,"result":"0x1"}]', "supplier:no_jsonrpc"],
  ["HTML", "<html>busy</html>", "supplier:not_json"],
  ["half an answer", '{"jsonrpc":"2.0","id":1,"resu', "supplier:not_json"],
  ["nothing", "", "supplier:empty"],
  ["bad UTF-8", Buffer.from([0x22, 0xff, 0x22]), "supplier:not_json"],
  ["an error without a code", rpc('"error":{"message":"x"}'), "supplier:bad_error"],
  ["an error that is text", rpc('"error":"x"'), "supplier:bad_error"],
];
for (const [name, body, expected] of ENVELOPES) {
  test(`JSON-RPC: ${name} is ${expected}`, () => assert.equal(verdict("eth", HEIGHT, body), expected));
}

const CALL = { method: "eth_call", params: [{ to: `0x${"11".repeat(20)}`, data: "0x" }, "latest"] };
const ERRORS: readonly (readonly [number, string, string])[] = [
  [3, "execution reverted: no", "error:unchecked"],
  [-32000, "execution reverted", "error:unchecked"],
  [-32015, "VM execution error.", "error:unchecked"],
  [-32000, "invalid opcode: INVALID", "error:unchecked"],
  [-32603, "EVM error InvalidFEOpcode", "error:unchecked"],
  [-32000, "out of gas", "error:unchecked"],
  [-32000, "gas required exceeds allowance (0)", "error:unchecked"],
  [-32000, "insufficient funds for gas * price + value", "error:unchecked"],
  [-32000, "intrinsic gas too low", "error:unchecked"],
  [-32000, "filter not found", "error:unchecked"],
  [-32602, "invalid argument 0: hex string has length 4, want 40", "error:unchecked"],
  [-32602, "missing value for required argument 1", "error:unchecked"],
  [-32602, "query exceeds max block range 1000", "client:too_much"],
  [-32005, "query returned more than 10000 results", "client:too_much"],
  [-32005, "daily request count exceeded, request rate limited", "supplier:rate_limited"],
  [-32000, "header not found", "chain:state_unavailable"],
  [-32000, "missing trie node abc (path )", "chain:state_unavailable"],
  [-32602, "BlockOutOfRangeError: block height is 0 but requested was 16777215", "chain:state_unavailable"],
  [-32601, "the method eth_call does not exist/is not available", "supplier:unsupported"],
  [-32603, "Internal error", "supplier:error"],
  [-32600, "Invalid request", "supplier:error"],
  [-32000, "service temporarily down", "supplier:error"],
  [-32602, "invalid block range params", "client:too_much"],
  [-32000, "genesis is not traceable", "error:unchecked"],
  [-32000, "transaction not found", "chain:state_unavailable"],
  [-32000, "already known", "error:unchecked"],
  [-32000, "replacement transaction underpriced", "error:unchecked"],
  [-32000, "account 0x0100000000000000000000000000000000000000 is not a precompile", "error:unchecked"],
  [-32603, "err: nonce has max value: address 0xc0, nonce: 18446744073709551615", "error:unchecked"],
  [-38010, "rate limit", "error:unchecked"],
  [-38021, "block timestamps must be in order: 550 <= 588", "error:unchecked"],
  [-38025, "max initcode size exceeded", "error:unchecked"],
  [-38026, "too many blocks", "client:too_much"],
];
for (const [code, message, expected] of ERRORS) {
  test(`EVM error ${code} ${message} is ${expected}`, () => {
    assert.equal(verdict("eth", CALL, fault(code, message)), expected);
  });
}

test("HTTP statuses", () => {
  const good = rpc('"result":"0x10"');
  assert.equal(verdict("eth", HEIGHT, good, 429), "supplier:rate_limited");
  assert.equal(verdict("eth", HEIGHT, good, 500), "supplier:http_status");
  assert.equal(verdict("eth", HEIGHT, good, 302), "supplier:http_status");
  assert.equal(verdict("eth", HEIGHT, "bad gateway", 502), "supplier:http_status");
  assert.equal(verdict("eth", HEIGHT, "", 503), "supplier:http_status");
  assert.equal(verdict("eth", HEIGHT, "{}", 401), "supplier:refused");
  assert.equal(verdict("eth", CALL, fault(3, "execution reverted"), 400), "error:unchecked");
  assert.equal(verdict("eth", CALL, fault(3, "execution reverted"), 500), "supplier:http_status");
});

test("no bytes make the reading of an answer throw, however deep", () => {
  const parts = fc.array(
    fc.constantFrom(
      '{"jsonrpc":"2.0",',
      '"id":1',
      ",",
      '"result":',
      '"0x1"',
      "{",
      "}",
      "[",
      "]",
      '"\\',
      '"',
      ":",
      "null",
      '"error":{"code":3,"message":"m"}',
    ),
    { maxLength: 14 },
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ maxLength: 40 }),
        parts.map((some) => Buffer.from(some.join(""))),
      ),
      (bytes) => {
        assert.match(verdict("eth", HEIGHT, bytes), /^(?:good|error|supplier|client|chain):/);
      },
    ),
    { numRuns: 3_000 },
  );
  const near = (data: string): string => rpc(`"error":{"code":-32000,"message":"m","data":${data}}`);
  const outcomes = (data: string): readonly string[] => [
    verdict("eth", HEIGHT, rpc(`"result":${data}`)),
    verdict("near", { method: "status" }, near(data)),
    verdict("pocket", "/cosmos/bank/v1beta1/params", data),
  ];
  assert.deepEqual(outcomes(nested(2_400)), ["supplier:schema", "supplier:error", "supplier:schema"]);
  // What a buyer could not read is not sold.
  for (const levels of [3_000, 500_000]) {
    assert.deepEqual(outcomes(nested(levels)), ["supplier:not_json", "supplier:not_json", "supplier:not_json"]);
  }
});

test("NEAR: causes decide", () => {
  const cause = (name: string): string =>
    rpc(`"error":{"code":-32000,"message":"Server error","cause":{"name":"${name}"}}`);
  assert.equal(verdict("near", { method: "status" }, cause("UNKNOWN_ACCOUNT")).split(":")[0], "error");
  assert.equal(verdict("near", { method: "status" }, cause("UNKNOWN_BLOCK")), "chain:state_unavailable");
  assert.equal(verdict("near", { method: "status" }, cause("INTERNAL_ERROR")), "supplier:error");
});

test("null and an empty list are answers", () => {
  const receipt = { method: "eth_getTransactionReceipt", params: [`0x${"00".repeat(32)}`] };
  assert.equal(verdict("eth", receipt, rpc('"result":null')), "good:passed");
  assert.equal(verdict("eth", { method: "eth_getLogs", params: [{}] }, rpc('"result":[]')), "good:passed");
});

test("what is too large to be checked is said to be unchecked, and still has to be a right envelope", () => {
  assert.equal(verdict("eth", HEIGHT, rpc('"result":"zz"'), 200, 10), "good:unchecked");
  assert.equal(verdict("eth", HEIGHT, '{"jsonrpc":"2.0","id":2,"result":"0x1"}', 200, 10), "supplier:wrong_id");
  assert.equal(verdict("eth", HEIGHT, rpc('"result":0x1'), 200, 10), "supplier:not_json");
});

test("an id that was kept back is put into the answer byte for byte, and nothing else is touched", () => {
  const eth = service("eth");
  for (const id of ["null", "1.50", "123456789012345678901234567890", '"\\u0061"']) {
    const body = Buffer.from(`{"method":"eth_blockNumber","id":${id}}`);
    const parsed = parsePaid(eth, { verb: "POST", appendedPath: "", query: "", body });
    assert.ok(parsed.ok);
    const response = responseOf('{ "result":"0x1", "id": 1 ,"jsonrpc":"2.0"}');
    const read = parseAnswer(eth, { call: parsed.call, response, operator: "a" }, MIB);
    assert.ok(read.ok);
    assert.equal(Buffer.from(read.body).toString(), `{ "result":"0x1", "id": ${id} ,"jsonrpc":"2.0"}`);
  }
});

test("Bitcoin Core's older answers become JSON-RPC 2.0, their bytes kept", () => {
  const id = [...catalogue.services.values()].find((found) => found.families.includes("bitcoin"))?.id;
  assert.ok(id !== undefined);
  const found = service(id);
  const parsed = parsePaid(found, {
    verb: "POST",
    appendedPath: "",
    query: "",
    body: Buffer.from('{"method":"getdifficulty"}'),
  });
  assert.ok(parsed.ok);
  const read = (body: string, status: number): ReturnType<typeof parseAnswer> =>
    parseAnswer(found, { call: parsed.call, response: responseOf(body, status, ""), operator: "a" }, MIB);
  const good = read('{"result":1.00000000,"error":null,"id":1}', 200);
  assert.ok(good.ok && good.schemaCheck === "passed");
  assert.equal(Buffer.from(good.body).toString(), '{"jsonrpc":"2.0","id":1,"result":1.00000000}');
  const error = read('{"result":null,"error":{"code":-8,"message":"Block height out of range"},"id":1}', 500);
  assert.ok(error.ok && error.isError);
  assert.equal(
    Buffer.from(error.body).toString(),
    '{"jsonrpc":"2.0","id":1,"error":{"code":-8,"message":"Block height out of range"}}',
  );
});

test("search: the answer to another question is a supplier's fault, and no error is sold", () => {
  const ask = { query: "a b" };
  assert.equal(verdict("search", ask, '{"query":"a b","results":[]}'), "good:passed");
  assert.equal(verdict("search", ask, '{"query":"a","results":[]}'), "supplier:other_request");
  assert.equal(verdict("search", ask, '{"detail":[]}', 422), "supplier:http_status");
  assert.equal(verdict("document-digest", { text: "x" }, "{}"), "supplier:schema");
  assert.equal(verdict("document-digest", { text: "x" }, '{"code":5,"message":"no"}', 404), "supplier:http_status");
});

test("Tron states errors with status 200", () => {
  assert.equal(
    verdict("tron", "/wallet/getnowblock", '{"Error":"class java.lang.NullPointerException : null"}'),
    "error:unchecked",
  );
  assert.equal(verdict("tron", "/wallet/getnowblock", '{"Error":"this API is closed"}'), "supplier:error");
});

// ---- recorded answers of a real node ----

/** The call that a paid request makes of a recorded one; undefined where it is not offered or asked in an odd way. */
function replay(one: Recorded): string | undefined {
  const pocket = service("pocket");
  const answer = Buffer.from(recordedText(one));
  const [appendedPath = "", query] = one.request.path.split("?", 2);
  const isGet = one.request.method === "GET";
  if (!isGet && (typeof one.request.body !== "object" || one.request.path !== "/")) return undefined;
  const parsed = parsePaid(pocket, {
    verb: isGet ? "GET" : "POST",
    appendedPath: isGet ? appendedPath : "",
    query: query === undefined ? "" : `?${query}`,
    body: isGet ? Buffer.alloc(0) : Buffer.from(JSON.stringify(one.request.body)),
  });
  if (!parsed.ok || parsed.call.clientId !== undefined) return undefined;
  // The node was asked without params; the paid route always sends them.
  if (one.name === "no params member" && one.status === 500) return undefined;
  const response = responseOf(answer, one.status, "");
  const read = parseAnswer(pocket, { call: parsed.call, response, operator: "a" }, MIB);
  if (!read.ok) return `${read.blame}:${read.reason}`;
  assert.deepEqual(Buffer.from(read.body), answer, "bytes are passed on as they came");
  return `${read.isError ? "error" : "good"}:${read.schemaCheck}`;
}

test("recorded: every result of the real node is good, every error of a wrong question is an answer", () => {
  const seen: Record<string, number> = {};
  for (const kind of ["rpc", "rest"] as const) {
    for (const one of readRecorded(kind)) {
      const found = replay(one);
      if (found === undefined) continue;
      seen[found] = (seen[found] ?? 0) + 1;
      const label = `${kind}/${one.file} ${one.name} ${one.request.path} ${one.status} ${found}`;
      const hasError = kind === "rpc" ? JSON.stringify(one.body).includes('"error":{') : one.status !== 200;
      if (one.status === 501) assert.equal(found, "supplier:unsupported", label);
      else if (!hasError) assert.match(found, /^good:(?:passed|undeclared)$/, label);
      else assert.match(found, /^error:/, label);
    }
  }
  assert.ok((seen["good:passed"] ?? 0) >= 80, JSON.stringify(seen));
  assert.ok((seen["error:unchecked"] ?? 0) >= 30, JSON.stringify(seen));
});

test("Cosmos: what another supplier may know is no answer", () => {
  const block = { method: "block", params: { height: "5" } };
  const inside = (data: string): string =>
    rpc(`"error":{"code":-32603,"message":"Internal error","data":${JSON.stringify(data)}}`);
  assert.equal(
    verdict("pocket", block, inside("height 5 is not available, lowest height is 100")),
    "chain:state_unavailable",
  );
  assert.equal(
    verdict("pocket", block, inside("could not find consensus params for height #5")),
    "chain:state_unavailable",
  );
  assert.equal(verdict("pocket", block, inside("runtime error: invalid memory address")), "supplier:error");
  assert.equal(verdict("pocket", "/block?height=5", '{"jsonrpc":"2.0","id":1,"result":{}}'), "supplier:wrong_id");
  const path = "/cosmos/tx/v1beta1/txs/ABC";
  for (const message of [
    "codespace wasm code 9: query wasm contract failed: Error parsing into type: unknown request",
    "rpc error: code = InvalidArgument desc = no such thing",
  ]) {
    assert.equal(verdict("pocket", path, JSON.stringify({ code: 2, message, details: [] }), 500), "error:unchecked");
  }
  for (const message of ["codespace undefined code 111222: panic", "rpc error: code = Unavailable desc = closing"]) {
    assert.equal(verdict("pocket", path, JSON.stringify({ code: 2, message }), 500), "supplier:http_status");
  }
  const lacking = '{"code":12,"message":"Not Implemented","details":[]}';
  assert.equal(verdict("pocket", path, lacking, 501), "supplier:unsupported");
  assert.equal(
    verdict("pocket", path, '{"code":14,"message":"connection refused","details":[]}', 503),
    "supplier:http_status",
  );
  assert.equal(
    verdict("pocket", path, '{"code":13,"message":"runtime panic","details":[]}', 500),
    "supplier:http_status",
  );
  assert.equal(verdict("pocket", path, "404 page not found", 404), "supplier:http_status");
});
