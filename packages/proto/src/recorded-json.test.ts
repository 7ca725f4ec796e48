import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { base64ToBytes, bytesToHex } from "@turnpike/base";
import { hex, type RecordedAnswer, recorded, recordedCalls, recordedFiles } from "../test/recorded.ts";
import { methodOfRest } from "../test/routes.ts";
import { fromApiJson } from "./api-json-read.ts";
import { jsonMemberTexts, toApiJson, toApiJsonText } from "./api-json-write.ts";
import { decodeMessage, encodeMessage } from "./binary.ts";
import { tx } from "./index.ts";
import { methodAt, registry } from "./registry.ts";

interface RecordedTx {
  readonly tx_bytes: string;
  readonly tx_json?: unknown;
  readonly result?: { readonly tx_response?: unknown };
}

interface RecordedEvents {
  readonly examples: readonly {
    readonly event: { readonly attributes: readonly { readonly key: string; readonly value: string }[] };
  }[];
}

/** The recording was parsed and written again, which undid Go's escapes of `<`, `>` and `&`: so is ours. */
const plain = (text: string): string => JSON.stringify(JSON.parse(text));

const answers = recordedFiles("rest").flatMap((file) =>
  recorded<RecordedAnswer[]>(`rest/${file}`).map((answer) => ({ file, answer })),
);

/** What has no types here: answers of parts of the real chain that ours does not have. */
const NOT_BUILT = /^\/(cosmwasm\/|ibc\/|cosmos\/(evidence|feegrant|params|gov\/v1beta1)\/|$)/;

suite("JSON of the real chain", () => {
  test("every recorded transaction prints as recorded, and what was printed reads back to its bytes", () => {
    let printed = 0;
    for (const name of recordedFiles("txs")) {
      const { tx_bytes, tx_json } = recorded<RecordedTx>(`txs/${name}`);
      // its JSON was printed before its signature was broken on purpose
      if (tx_json === undefined || name === "fail-ante-signature.json") continue;
      const bytes = base64ToBytes(tx_bytes) ?? assert.fail(name);
      const decoded = decodeMessage(tx.TxSchema, bytes);
      assert.ok(decoded.ok, name);
      assert.equal(plain(toApiJsonText(tx.TxSchema, decoded.message)), JSON.stringify(tx_json), name);
      const read = fromApiJson(tx.TxSchema, tx_json);
      assert.ok(read.ok, name);
      assert.equal(bytesToHex(encodeMessage(tx.TxSchema, read.message)), bytesToHex(bytes), name);
      printed++;
    }
    assert.equal(printed, 102);
  });

  test("every recorded result of a transaction reads, and prints as it was", () => {
    let printed = 0;
    for (const name of recordedFiles("txs")) {
      const { result } = recorded<RecordedTx>(`txs/${name}`);
      if (result?.tx_response === undefined) continue;
      const read = fromApiJson(tx.GetTxResponseSchema, result);
      assert.ok(read.ok, `${name}: ${read.ok ? "" : read.fault}`);
      assert.equal(plain(toApiJsonText(tx.GetTxResponseSchema, read.message)), JSON.stringify(result), name);
      printed++;
    }
    assert.ok(printed > 75, `${printed}`);
  });

  test("every recorded REST answer reads, goes over the wire, and prints as it was, members in the same order", () => {
    const methods = new Set<string>();
    for (const { file, answer } of answers) {
      const { method: verb, path } = answer.request;
      if (answer.status !== 200 || NOT_BUILT.test(path.split("?")[0] ?? "")) continue;
      const label = `${file}: ${answer.name}`;
      const path1 = methodOfRest(verb, path) ?? assert.fail(`no method for ${verb} ${path}`);
      const output = methodAt(path1)?.output ?? assert.fail(path1);
      const { $note: _, ...body } = answer.body as Record<string, unknown>;
      const read = fromApiJson(output, body);
      assert.ok(read.ok, `${label}: ${read.ok ? "" : read.fault}`);
      const wire = decodeMessage(output, encodeMessage(output, read.message));
      assert.ok(wire.ok, label);
      assert.equal(plain(toApiJsonText(output, wire.message)), JSON.stringify(body), label);
      methods.add(path1);
    }
    assert.ok(methods.size > 70, `${methods.size}`);
  });

  test("gRPC answers print as the REST answers to the same question", () => {
    const bodies = new Set(answers.map(({ answer }) => JSON.stringify(answer.body)));
    const equal = new Set<string>();
    for (const { file, call } of recordedCalls()) {
      const output = methodAt(call.method)?.output;
      if (output === undefined || typeof call.response_hex !== "string") continue;
      const decoded = decodeMessage(output, hex(call.response_hex));
      assert.ok(decoded.ok);
      const text = JSON.stringify(toApiJson(output, decoded.message));
      if (bodies.has(text)) equal.add(`${file} ${call.name}`);
    }
    // the others were asked at another height, or of something else
    for (const one of [
      "application.json one",
      "application.json all limit 1 count_total",
      "cosmos.json auth account",
      "cosmos.json auth module account",
      "cosmos.json auth params",
      "cosmos.json bank balance",
      "cosmos.json tx events",
      "cosmos.json tx broadcast sync old tx",
      "cosmos.json node config",
      "gateway.json all",
      "proof.json claim",
      "proof.json all claims",
      "service.json with metadata",
      "service.json all",
      "service.json cupr history",
      "session.json params",
      "shared.json params at height",
      "supplier.json params",
      "tokenomics.json params",
    ]) {
      assert.ok(equal.has(one), one);
    }
  });

  test("every recorded typed event prints its attributes as recorded, in the same order", () => {
    const types = Object.entries(recorded<Record<string, RecordedEvents>>("events.json")).filter(([type]) =>
      type.startsWith("pocket."),
    );
    assert.ok(types.length > 20, `${types.length}`);
    for (const [type, { examples }] of types) {
      const schema = registry.getMessage(type) ?? assert.fail(type);
      for (const { event } of examples) {
        const own = event.attributes.filter(({ key }) => key !== "mode" && key !== "msg_index");
        const members = Object.fromEntries(own.map(({ key, value }) => [key, JSON.parse(value) as unknown]));
        const read = fromApiJson(schema, members);
        assert.ok(read.ok, `${type}: ${read.ok ? "" : read.fault}`);
        assert.deepEqual(
          jsonMemberTexts(schema, read.message).map(({ name, json }) => [name, json]),
          own.map(({ key, value }) => [key, value]),
          type,
        );
      }
    }
  });
});
