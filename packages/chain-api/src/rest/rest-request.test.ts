import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { bank } from "@turnpike/proto";
import { endsInLinearTime } from "@turnpike/testkit";
import { readQuery, setQueryFields } from "./rest-request.ts";

const schema = bank.QueryBalanceRequestSchema;

/** The address that a query of this text sets. */
function addressOf(text: string): string {
  const read = readQuery(text);
  assert.ok(read.ok);
  const message = create(schema);
  assert.equal(setQueryFields(schema, message, read.query, []), undefined);
  return message.address;
}

suite("queries of the REST API", () => {
  test("entries of a map are split as by the gateway", () => {
    assert.equal(addressOf("address=a"), "a");
    assert.equal(addressOf("address[k]=v"), "k");
    assert.equal(addressOf("address[]=v"), "");
    // Names of no field.
    for (const name of ["address[k", "address]", "address[k]x", "address[[k]", "address%0a[k]", "[address]"]) {
      assert.equal(addressOf(`${name}=v`), "", name);
    }
  });

  test("any query is read in time that grows with its length", () => {
    const length = 1_000_000;
    for (const pump of ["[", "]", "[]", ".", "a.", "%", "%41", "+", "=", "&", "&a=", "-", "0"]) {
      const run = pump.repeat(length / pump.length);
      for (const text of [run, `${run}=1`, `address=${run}`, `address${run}]`, `pagination.limit=${run}`]) {
        endsInLinearTime(() => {
          const read = readQuery(text);
          if (read.ok) setQueryFields(schema, create(schema), read.query, []);
        });
      }
    }
  });
});
