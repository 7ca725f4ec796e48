import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { rpcError } from "../http/rpc-answer.ts";
import { type RpcBody, type RpcItem, readRpcBody } from "./jsonrpc.ts";

const read = (text: string): RpcBody => readRpcBody(Buffer.from(text), 10_000);

function single(text: string): RpcItem {
  const body = read(text);
  assert.equal(body.kind, "single", text);
  return body.item;
}

test("any body is read or refused, and a refusal is a whole JSON-RPC error", () => {
  const like = fc.record(
    {
      jsonrpc: fc.constantFrom("2.0", "1.0", 2),
      method: fc.oneof(fc.string(), fc.integer()),
      id: fc.jsonValue(),
      params: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  const one = fc.oneof(
    fc.json(),
    like.map((value) => JSON.stringify(value)),
  );
  const body = fc.oneof(
    fc.string(),
    one,
    fc.array(one).map((items) => `[${items.join(" ,")}]`),
  );
  fc.assert(
    fc.property(body, (text) => {
      const found = read(text);
      if (found.kind === "refused") {
        assert.ok(parseJson(rpcError("null", found.rpcCode, found.message)).ok);
        return;
      }
      if (found.kind === "too_many") return;
      const value = JSON.parse(text) as unknown;
      const items = found.kind === "batch" ? found.items : [found.item];
      const values = (found.kind === "batch" ? value : [value]) as Record<string, unknown>[];
      assert.equal(items.length, values.length);
      for (const [index, item] of items.entries()) {
        const own = values[index];
        if (item.kind === "invalid") {
          assert.ok(parseJson(rpcError(item.id, -32600, item.message)).ok);
          continue;
        }
        assert.deepEqual([own?.jsonrpc, own?.method], ["2.0", item.rpc.method]);
        assert.equal(item.kind === "notification", !Object.hasOwn(own ?? {}, "id"));
        assert.deepEqual(JSON.parse(Buffer.from(item.rpc.body).toString()), own);
        if (item.kind === "call") assert.deepEqual(JSON.parse(item.id), own?.id);
      }
    }),
    { numRuns: 1_000 },
  );
});

test("repeated members, in any spelling, are refused", () => {
  for (const text of [
    '{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}',
    '{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}',
    '{"jsonrpc":"2.0","id":1,"method":"a","\\u006dethod":"b"}',
    '{"jsonrpc":"2.0","id":1,"method":"a","params":[],"params":[1]}',
    '{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}',
  ]) {
    assert.equal(single(text).kind, "invalid", text);
  }
});

test("members that are none of JSON-RPC's make a call that is not forwarded as it is", () => {
  const item = single('{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}');
  assert.ok(item.kind === "call" && !item.rpc.isPlain);
});

test("depth is bounded, and so is a batch", () => {
  const deep = `${"[".repeat(200)}${"]".repeat(200)}`;
  assert.equal(read(`{"jsonrpc":"2.0","id":1,"method":"a","params":${deep}}`).kind, "refused");
  assert.equal(read("[".repeat(1_000_000)).kind, "refused");
  assert.equal(readRpcBody(Buffer.from("[1,2,3]"), 2).kind, "too_many");
});

test("text that is not UTF-8, or begins with a byte order mark, is a parse error", () => {
  for (const bytes of [Buffer.from([0x22, 0xff, 0x22]), Buffer.from("\ufeff{}"), Buffer.alloc(0)]) {
    const body = readRpcBody(bytes, 10);
    assert.ok(body.kind === "refused" && body.rpcCode === -32700);
  }
});
