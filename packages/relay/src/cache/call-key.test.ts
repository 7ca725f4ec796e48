import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { jsonText } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import { fc } from "@turnpike/testkit/property";
import { callKey, MAX_KEYED_BYTES } from "./call-key.ts";

function rpc(body: string, id: string | undefined = "1", more: Partial<BackendCall> = {}): BackendCall {
  const base = { rpcType: "json_rpc", operation: "eth_call", verb: "POST", path: "", params: undefined } as const;
  return { ...base, body: Buffer.from(body), id, ...more };
}
const call = (params: string, id = "1"): BackendCall =>
  rpc(`{"jsonrpc":"2.0","id":${id},"method":"eth_call","params":${params}}`, id);
const get = (path: string, headers?: Record<string, string>): BackendCall => ({
  rpcType: "rest",
  operation: "GET /x",
  verb: "GET",
  path,
  body: undefined,
  id: undefined,
  params: undefined,
  ...(headers === undefined ? {} : { headers }),
});

suite("callKey", () => {
  test("is the same for calls that differ in their id alone, wherever it stands", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.oneof(fc.integer(), fc.double(), fc.string()), (params, id) => {
        const one = callKey(call(JSON.stringify(params)));
        assert.notEqual(one, undefined);
        assert.deepEqual(callKey(call(JSON.stringify(params), JSON.stringify(id))), one);
      }),
    );
    const last = (id: string): BackendCall => rpc(`{"jsonrpc":"2.0","method":"m","params":[{"id":7}],"id":${id}}`, id);
    assert.deepEqual(callKey(last("1")), callKey(last('"x"')));
  });

  test("is the same whether the body's text is at hand or not", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (params, id) => {
        const one = call(JSON.stringify(params), JSON.stringify(id));
        const body = Buffer.from(one.body ?? []);
        const start = '{"jsonrpc":"2.0","id":'.length;
        const idAt = { start, end: start + Buffer.byteLength(JSON.stringify(id)) };
        assert.deepEqual(callKey({ ...one, idAt, bodyText: jsonText(body) }), callKey(one));
        assert.deepEqual(callKey({ ...one, idAt }), callKey(one));
      }),
    );
  });

  test("tells apart what a float cannot, and what only nests an id", () => {
    assert.notDeepEqual(callKey(call("[9007199254740993]")), callKey(call("[9007199254740992]")));
    assert.notDeepEqual(callKey(call('[{"id":1}]')), callKey(call('[{"id":2}]')));
    assert.notDeepEqual(callKey(call('["é"]')), callKey(call('["è"]')));
  });

  test("different parameters make different keys, also where keys are hashed", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 3_000 }), fc.string({ maxLength: 3_000 }), (a, b) => {
        const keys = [a, b].map((text) => callKey(call(JSON.stringify([text, "x".repeat(2_000)]))));
        assert.equal(keys[0]?.text === keys[1]?.text, a === b);
      }),
    );
    assert.ok((callKey(call(`["${"x".repeat(50_000)}"]`))?.text.length ?? 999) < 100);
  });

  test("takes in way, verb, path with query, body and headers", () => {
    const keys = [
      call("[]"),
      { ...call("[]"), rpcType: "comet_bft" as const },
      { ...call("[]"), path: "/ext/bc/C/rpc" },
      get("/a?x=1"),
      get("/a?x=2"),
      get("/a?x=1", { "x-cosmos-block-height": "1" }),
      get("/a?x=1", { "x-cosmos-block-height": "2" }),
      { ...get("/a?x=1"), verb: "POST" as const, body: Buffer.from("{}") },
      { ...get("/a?x=1"), verb: "POST" as const, body: Buffer.from("[]") },
    ].map((one) => callKey(one)?.text);
    assert.equal(new Set(keys).size, keys.length);
    assert.ok(!keys.includes(undefined));
    assert.deepEqual(callKey(get("/a", { a: "1", b: "2" })), callKey(get("/a", { b: "2", a: "1" })));
  });

  test("there is none for a body that is too long, has no id, or two", () => {
    assert.equal(callKey(call(`["${"x".repeat(MAX_KEYED_BYTES)}"]`)), undefined);
    assert.equal(callKey(rpc('{"jsonrpc":"2.0","method":"m"}')), undefined);
    assert.equal(callKey(rpc('{"id":1,"jsonrpc":"2.0","method":"m","id":2}')), undefined);
    assert.equal(callKey(rpc("[1]")), undefined);
  });
});
