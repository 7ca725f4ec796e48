import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { endsInLinearTime } from "@turnpike/testkit";
import { responseOf } from "../../test/response.ts";
import { httpProbeCall, rpcProbeCall } from "../families/family.ts";
import { parseAnswer } from "./parsed-answer.ts";
import { scanAnswer } from "./scanned-answer.ts";

const { services } = createCatalogue({});

function service(id: string): Service {
  const found = services.get(id as ServiceId);
  assert.ok(found !== undefined, id);
  return found;
}

const NOT_THERE = '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"The method is not available."}}';

/** The attempt's reason, and whether a free client may see what the supplier said. */
function seen(id: string, call: BackendCall, status: number, said: unknown): string {
  const body = Buffer.from(typeof said === "string" ? said : JSON.stringify(said));
  const read = scanAnswer(service(id), { call, response: responseOf(body, status), operator: "a" });
  if (read.ok) return read.isError ? "error" : "good";
  const shown = read.fallback === undefined ? undefined : Buffer.from(read.fallback.body).toString();
  if (shown === NOT_THERE) return `${read.reason} in our words`;
  if (shown !== undefined) assert.equal(shown, body.toString());
  return `${read.reason} ${read.fallback === undefined ? "hidden" : "shown"}`;
}

const CALL = rpcProbeCall("eth_call", []);
const PATH = httpProbeCall("GET", "/cosmos/bank/v1beta1/params");
const error = (code: number, message: string, data?: unknown): unknown => ({
  jsonrpc: "2.0",
  id: 1,
  error: { code, message, data },
});
/** Where suppliers, or what is behind them, are. */
const PLACES = [
  "see https://dash.example.com/keys",
  "dial tcp 10.1.2.3:9090: connection refused",
  "dial tcp: lookup node-3: no such host",
  "connect ECONNREFUSED ::1:8545",
  "getaddrinfo ENOTFOUND node-3",
  "upstream node-3.internal:8545 is gone",
  "upstream [2001:db8::7]:8545 is gone",
  "localhost:8545 is gone",
];

test("what a supplier says of its account is not shown", () => {
  assert.equal(seen("eth", CALL, 200, error(-32_000, "API key abc exceeded its quota")), "rate_limited hidden");
  assert.equal(seen("eth", CALL, 200, error(429, "Too Many Requests")), "rate_limited hidden");
  // It stays what it is with a status that may carry an error.
  assert.equal(seen("eth", CALL, 400, error(-32_000, "API key abc exceeded its quota")), "rate_limited hidden");
  assert.equal(seen("pocket", PATH, 402, { code: 402, message: "no funds in account 7" }), "refused hidden");
  assert.equal(seen("pocket", PATH, 429, { code: 8, message: "account 7 is over its limit" }), "rate_limited hidden");
});

test("no error that is shown says where a supplier is", () => {
  for (const place of PLACES) {
    for (const said of [error(-32_603, place), error(-32_603, "Internal error", { cause: place })]) {
      assert.equal(seen("eth", CALL, 200, said), "error hidden", place);
    }
    assert.equal(seen("eth", CALL, 404, error(-32_601, `no such method, ${place}`)), "unsupported in our words", place);
    assert.equal(
      seen("eth", CALL, 200, error(-32_000, `block not found: ${place}`)),
      "state_unavailable hidden",
      place,
    );
    assert.equal(seen("pocket", PATH, 500, { code: 13, message: `pruned: ${place}` }), "state_unavailable hidden");
    assert.equal(seen("pocket", PATH, 400, { code: 14, message: place }), "http_status hidden");
  }
  const escaped = '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"see https:\\/\\/node-3"}}';
  assert.equal(seen("eth", CALL, 200, escaped), "error hidden");
});

test("a path's error with 5xx is shown when it is the chain's word, not when it is the supplier's fault", () => {
  const own = { code: 2, message: "rpc error: code = NotFound desc = account not found", details: [] };
  assert.equal(seen("pocket", PATH, 500, own), "error");
  assert.equal(seen("pocket", PATH, 500, { code: 13, message: "version does not exist" }), "state_unavailable shown");
  const traced = "version does not exist [cosmos/cosmos-sdk@v0.50.11/store/rootmulti.go:252]";
  assert.equal(seen("pocket", PATH, 500, { code: 2, message: traced }), "state_unavailable shown");
  assert.equal(seen("pocket", PATH, 501, { code: 12, message: "Not Implemented" }), "unsupported shown");
  assert.equal(seen("pocket", PATH, 500, { code: 13, message: "runtime panic" }), "http_status hidden");
  assert.equal(seen("pocket", PATH, 503, { code: 14, message: "connection refused" }), "http_status hidden");
  assert.equal(seen("pocket", PATH, 400, { code: 4, message: "no" }), "http_status shown");
});

test("an error that says nothing of the supplier is shown as it came", () => {
  for (const [message, reason] of [
    ["header not found", "state_unavailable"],
    ["query returned more than 10000 results. Try with this block range [0x1, 0x2f].", "too_much"],
    ["Internal error", "error"],
  ] as const) {
    assert.equal(seen("eth", CALL, 200, error(-32_000, message)), `${reason} shown`);
    assert.equal(seen("eth", CALL, 400, error(-32_000, message)), `${reason} shown`);
  }
  assert.equal(
    seen("eth", CALL, 400, { jsonrpc: "2.0", id: 2, error: { code: 3, message: "m" } }),
    "http_status hidden",
  );
});

test("a long error is read in time that grows with its length", () => {
  endsInLinearTime(() => {
    for (const part of ["a", "1", "a.", "1.", "[0:", "-", ":/"]) {
      const long = part.repeat(2_000_000 / part.length);
      assert.match(seen("eth", CALL, 200, error(-32_603, "m", long)), /^error /);
    }
  });
});

test("the same holds for answers in JSON-RPC 1 style", () => {
  const bitcoin = [...services.values()].find(({ families }) => families.includes("bitcoin"));
  assert.ok(bitcoin !== undefined);
  const call = rpcProbeCall("getblockcount", []);
  for (const [message, isShown] of [
    ["Work queue depth", true],
    ...PLACES.map((place) => [place, false] as const),
  ] as const) {
    const body = Buffer.from(JSON.stringify({ result: null, error: { code: -32_603, message }, id: 1 }));
    const read = parseAnswer(bitcoin, { call, response: responseOf(body), operator: "a" }, 0);
    assert.ok(!read.ok);
    assert.equal(read.fallback !== undefined, isShown, message);
  }
});
