import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { DescMessage, Message } from "@bufbuild/protobuf";
import { base64ToBytes, bytesToHex } from "@turnpike/base";
import { anysOf, hex, recorded, recordedCalls, recordedFiles } from "../test/recorded.ts";
import { decodeMessage, encodeMessage, findUnknownField } from "./binary.ts";
import { baseAbci, relayHttp, schemaOfTypeUrl, service, tx } from "./index.ts";
import { methodAt } from "./registry.ts";

interface RecordedTx {
  readonly tx_bytes: string;
  readonly result?: { readonly tx_response?: { readonly data: string } };
}

interface Exchange {
  readonly request: { readonly body: string };
  readonly response: { readonly body: string };
}

const fromBase64 = (text: string): Uint8Array => base64ToBytes(text) ?? assert.fail("not base64");

/** Decodes, finds nothing unknown, encodes to the same bytes, and does so with every `Any` inside. */
function sameBytes(schema: DescMessage, bytes: Uint8Array): Message {
  const decoded = decodeMessage(schema, bytes);
  assert.ok(decoded.ok, `${schema.typeName}: ${decoded.ok ? "" : decoded.fault}`);
  const { message } = decoded;
  assert.equal(findUnknownField(schema, message), undefined);
  assert.equal(bytesToHex(encodeMessage(schema, message)), bytesToHex(bytes), schema.typeName);
  for (const any of anysOf(schema, message)) {
    const inner = schemaOfTypeUrl(any.typeUrl);
    assert.ok(inner !== undefined, `no schema of ${any.typeUrl}`);
    const value = decodeMessage(inner, any.value);
    assert.ok(value.ok, any.typeUrl);
    assert.equal(findUnknownField(inner, value.message), undefined);
    assert.equal(bytesToHex(encodeMessage(inner, value.message)), bytesToHex(any.value), any.typeUrl);
  }
  return message;
}

/** The same, with the message's type. */
function sameAs<T extends Message>(schema: DescMessage, bytes: Uint8Array): T {
  return sameBytes(schema, bytes) as T;
}

suite("bytes of the real chain", () => {
  test("every recorded transaction, its body, its authorisation, its messages and what they return", () => {
    const names = recordedFiles("txs").filter((name) => name !== "index.json");
    assert.equal(names.length, 104);
    for (const name of names) {
      const { tx_bytes, result } = recorded<RecordedTx>(`txs/${name}`);
      const bytes = fromBase64(tx_bytes);
      const raw = sameAs<tx.TxRaw>(tx.TxRawSchema, bytes);
      const body = sameAs<tx.TxBody>(tx.TxBodySchema, raw.bodyBytes);
      assert.ok(body.messages.length > 0, name);
      sameBytes(tx.AuthInfoSchema, raw.authInfoBytes);
      sameBytes(tx.TxSchema, bytes);
      const data = result?.tx_response?.data ?? "";
      if (data !== "") sameBytes(baseAbci.TxMsgDataSchema, hex(data));
    }
  });

  test("every recorded gRPC request and answer", () => {
    let messages = 0;
    for (const { call } of recordedCalls()) {
      const method = methodAt(call.method);
      if (method === undefined) continue;
      const answers = call.responses_hex ?? (typeof call.response_hex === "string" ? [call.response_hex] : []);
      const requests = call.name === "junk request" ? [] : [call.request_hex];
      for (const request of requests) sameBytes(method.input, hex(request));
      for (const answer of answers) sameBytes(method.output, hex(answer));
      messages += requests.length + answers.length;
    }
    assert.equal(messages, 117);
  });

  test("a method is unknown where the real node has none", () => {
    const unknown = recordedCalls().filter(({ call }) => methodAt(call.method) === undefined);
    assert.deepEqual(
      unknown.map(({ call }) => call.method),
      ["/pocket.shared.Query/Nosuch", "/pocket.nosuch.Query/Params"],
    );
  });

  test("every recorded relay, and the HTTP messages in it, whose headers are maps", () => {
    const exchanges = recorded<Exchange[]>("relay/e2e-1-wire.json");
    assert.ok(exchanges.length > 20);
    for (const { request, response } of exchanges) {
      const asked = sameAs<service.RelayRequest>(service.RelayRequestSchema, fromBase64(request.body));
      const answered = sameAs<service.RelayResponse>(service.RelayResponseSchema, fromBase64(response.body));
      const sent = sameAs<relayHttp.POKTHTTPRequest>(relayHttp.POKTHTTPRequestSchema, asked.payload);
      assert.equal(sent.method, "POST");
      sameBytes(relayHttp.POKTHTTPResponseSchema, answered.payload);
    }
  });

  test("junk is a fault, not a crash", () => {
    for (const junk of ["ffff", "0a", "0aff", "08", "0b", "00", "ffffffffffffffffffff01"]) {
      assert.equal(decodeMessage(tx.TxRawSchema, hex(junk)).ok, false, junk);
    }
    const notUtf8 = decodeMessage(tx.TxBodySchema, hex("1202c328"));
    assert.equal(notUtf8.ok, false);
  });
});
