import assert from "node:assert/strict";
import { test } from "node:test";
import type { BackendCall } from "@turnpike/protocol";
import { fc } from "@turnpike/testkit/property";
import { responseOf } from "../../test/response.ts";
import { evm } from "../families/evm.ts";
import { joinBatch, readBatch } from "./batch-codec.ts";

const call = (id: string, clientId?: string): BackendCall => ({
  rpcType: "json_rpc",
  operation: "eth_call",
  verb: "POST",
  path: "",
  body: Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":"eth_call"}`),
  id,
  params: [],
  ...(clientId === undefined ? {} : { clientId }),
});

test("a batch is the calls' own bytes; equal ids are numbered, and given back", () => {
  const apart = joinBatch([call("7"), call('"x"')]);
  assert.equal(
    Buffer.from(apart.body).toString(),
    '[{"jsonrpc":"2.0","id":7,"method":"eth_call"},{"jsonrpc":"2.0","id":"x","method":"eth_call"}]',
  );
  const equal = joinBatch([call("7"), call("7"), call("1", "1.5")]);
  assert.deepEqual(
    JSON.parse(Buffer.from(equal.body).toString()).map(({ id }: { id: number }) => id),
    [1, 2, 3],
  );
  const read = readBatch(
    evm,
    equal,
    responseOf("[3,2,1]".replace(/\d/g, '{"jsonrpc":"2.0","id":$&,"result":"$&"}')),
    "a",
  );
  assert.ok(read.kind === "answers");
  assert.deepEqual(
    read.answers.map((one) => (one.ok ? Buffer.from(one.body).toString() : one.reason)),
    [
      '{"jsonrpc":"2.0","id":7,"result":"1"}',
      '{"jsonrpc":"2.0","id":7,"result":"2"}',
      '{"jsonrpc":"2.0","id":1.5,"result":"3"}',
    ],
  );
});

test("no bytes make the reading of a batch throw, and no answer is taken for another's", () => {
  const joined = joinBatch([call("1"), call("2")]);
  const item = fc.oneof(
    fc.record({
      jsonrpc: fc.constantFrom("2.0", "1.0"),
      id: fc.constantFrom(1, 2, 3, "1", null),
      result: fc.jsonValue(),
    }),
    fc.jsonValue(),
  );
  const texts = fc.oneof(
    fc.string(),
    fc.array(item).map((value) => JSON.stringify(value)),
    fc.tuple(fc.array(item), fc.nat()).map(([value, cut]) => JSON.stringify(value).slice(0, cut)),
  );
  fc.assert(
    fc.property(texts, fc.constantFrom(200, 500, 400), (text, status) => {
      const read = readBatch(evm, joined, responseOf(text, status), "a");
      if (read.kind !== "answers") return;
      const given = JSON.parse(text) as ({ id: unknown; result: unknown } | null)[];
      for (const [at, one] of read.answers.entries()) {
        if (!one.ok) continue;
        const value = JSON.parse(Buffer.from(one.body).toString()) as { id: number; result: unknown };
        assert.equal(value.id, at + 1);
        assert.deepEqual(value.result, given.find((one) => one?.id === at + 1)?.result);
      }
    }),
    { numRuns: 1_000 },
  );
});

test("refusals of a batch are distinguished from faults", () => {
  const joined = joinBatch([call("1"), call("2")]);
  const kind = (text: string, status = 200): string => {
    const read = readBatch(evm, joined, responseOf(text, status), "a");
    return read.kind === "failed" ? read.failure.reason : read.kind;
  };
  assert.equal(kind("no", 400), "refused");
  assert.equal(kind("", 405), "refused");
  assert.equal(kind('{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}'), "refused");
  assert.equal(kind("<html>"), "not_json");
  assert.equal(kind(""), "empty");
  assert.equal(kind("[]"), "wrong_id");
  assert.equal(kind("[]", 503), "http_status");
  assert.equal(kind("[]", 429), "rate_limited");
  assert.equal(kind('[{"jsonrpc":"2.0","id":1,"result":1}'), "not_json");
});

test("a malformed element of a batch fails its own call alone, and is its supplier's fault", () => {
  const joined = joinBatch([call("1"), call("2"), call("3")]);
  const item = (id: number, result: string): string => `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
  for (const bad of ['"a\u0001"', "[1,,2]", '{"a" 1}', '"\\x"', "[01]", "[nul]"]) {
    const read = readBatch(evm, joined, responseOf(`[${item(1, '"0x1"')},${item(2, bad)},${item(3, "[]")}]`), "a");
    assert.ok(read.kind === "answers", bad);
    assert.deepEqual(
      read.answers.map((one) => (one.ok ? "good" : `${one.blame} ${one.reason}`)),
      ["good", "supplier not_json", "good"],
      bad,
    );
  }
});
