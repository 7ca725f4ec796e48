import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { fc } from "@turnpike/testkit/property";
import { responseOf } from "../../test/response.ts";
import { httpProbeCall, rpcProbeCall } from "../families/family.ts";
import { scanAnswer } from "./scanned-answer.ts";
import { createAnswer, withOwnId } from "./upstream-answer.ts";

const service = createCatalogue({}).get("eth" as ServiceId);
assert.ok(service !== undefined);
const eth = service;

test("an answer that is shared is the same but for the id, wherever that stands", () => {
  const space = fc.constantFrom("", " ", "\n", "\t ");
  const id = fc.constantFrom("1", '"a"', "null", "1.50", '"\\u00e9"', "12345678901234567890");
  const outcome = fc.constantFrom(
    '"result":"0x1"',
    '"result":{"id":1}',
    '"error":{"code":3,"message":"execution reverted"}',
  );
  const shape = fc.record({ sent: id, client: fc.option(id, { nil: undefined }), other: id, outcome });
  const order = fc.shuffledSubarray([0, 1, 2], { minLength: 3, maxLength: 3 });
  fc.assert(
    fc.property(shape, order, space, space, ({ sent, client, other, outcome: said }, places, left, right) => {
      const written = (own: string): string => {
        const members = ['"jsonrpc":"2.0"', `"id":${own}`, said];
        return `${left}{${places.map((at) => members[at]).join(`,${right}`)},"x":1,"x":2}${right}`;
      };
      const call: BackendCall = {
        rpcType: "json_rpc",
        operation: "eth_call",
        verb: "POST",
        path: "",
        body: Buffer.from("{}"),
        id: sent,
        params: [],
        ...(client === undefined ? {} : { clientId: client }),
      };
      const body = Buffer.from(written(sent));
      const read = scanAnswer(eth, { call, response: responseOf(body), operator: "a" });
      assert.ok(read.ok);
      assert.equal(Buffer.from(read.body).toString(), written(client ?? sent));
      const shared = withOwnId(read, other);
      assert.equal(Buffer.from(shared?.body ?? []).toString(), written(other));
      if (shared?.resultAt !== undefined) {
        const { start, end } = shared.resultAt;
        assert.equal(`"result":${Buffer.from(shared.body.subarray(start, end)).toString()}`, said);
      }
    }),
  );
});

test("a JSON-RPC answer has status 200 and a JSON type, whatever it came with; one of a path keeps its own", () => {
  const rpc = rpcProbeCall("eth_blockNumber", []);
  const read = { body: Buffer.from("{}"), schemaCheck: "unchecked", isError: false } as const;
  const response = responseOf("", 203, "text/plain");
  const facts = (call: BackendCall): readonly [number, string] => {
    const { status, contentType } = createAnswer({ call, response, operator: "a" }, read);
    return [status, contentType];
  };
  assert.deepEqual(facts(rpc), [200, "application/json"]);
  assert.deepEqual(facts(httpProbeCall("GET", "/x")), [203, "text/plain"]);
});
