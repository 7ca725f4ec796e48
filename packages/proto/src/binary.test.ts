import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { hex } from "../test/recorded.ts";
import { packAny, unpackAny } from "./any.ts";
import { decodeMessage, encodeMessage, findUnknownField } from "./binary.ts";
import { application, auth, bank, base, createMessage, relayHttp, service, shared, supplier, tx } from "./index.ts";
import { ALL_FILES } from "./registry.ts";

const utf8 = (text: string): Uint8Array => Buffer.from(text, "utf8");

/** One entry of `map<string, Header> header = 2`. */
function headerEntry(name: string): Buffer {
  const key = utf8(name);
  const header = Buffer.concat([Buffer.from([0x0a, key.length]), key]);
  const entry = Buffer.concat([Buffer.from([0x0a, key.length]), key, Buffer.from([0x12, header.length]), header]);
  return Buffer.concat([Buffer.from([0x12, entry.length]), entry]);
}

suite("bytes of messages", () => {
  test("fields go by number: relay_miner_error (3) before payload_hash (4), which is declared first", () => {
    const declared = service.RelayResponseSchema.fields.map(({ name }) => name);
    assert.deepEqual(declared, ["meta", "payload", "payload_hash", "relay_miner_error"]);
    const response = createMessage(service.RelayResponseSchema, {
      meta: {},
      payload: utf8("p"),
      payloadHash: utf8("h"),
      relayMinerError: { code: 7 },
    });
    assert.equal(bytesToHex(encodeMessage(service.RelayResponseSchema, response)), "0a001201701a021007220168");
  });

  test("a sub-message that is set is written even when it is empty, one that is not set is left out", () => {
    const set = createMessage(service.RelayRequestSchema, { meta: {} });
    assert.equal(bytesToHex(encodeMessage(service.RelayRequestSchema, set)), "0a00");
    assert.equal(encodeMessage(service.RelayRequestSchema, createMessage(service.RelayRequestSchema)).length, 0);
  });

  test("map entries go by key as Go sorts them, whatever order they were set in", () => {
    // numbers among texts, and a key whose UTF-16 and UTF-8 orders differ
    const sorted = ["10", "9", "Accept", "Zeta", "a", "\uff5e", "\u{1f600}"];
    const expected = Buffer.concat([
      Buffer.from([0x0a, 4]),
      utf8("POST"),
      ...sorted.map(headerEntry),
      Buffer.from([0x1a, 1]),
      utf8("u"),
    ]);
    fc.assert(
      fc.property(fc.shuffledSubarray(sorted, { minLength: sorted.length }), (names) => {
        const header = Object.fromEntries(
          names.map((key) => [key, createMessage(relayHttp.HeaderSchema, { key })] as const),
        );
        const request = createMessage(relayHttp.POKTHTTPRequestSchema, { method: "POST", url: "u", header });
        assert.equal(bytesToHex(encodeMessage(relayHttp.POKTHTTPRequestSchema, request)), expected.toString("hex"));
      }),
      { numRuns: 50 },
    );
  });

  test("maps inside of other messages are sorted too, numbers by value", () => {
    const pendingUndelegations = {
      "18446744073709551615": { gatewayAddresses: ["c"] },
      "20": { gatewayAddresses: ["b"] },
      "3": { gatewayAddresses: ["a"] },
    };
    const made = createMessage(application.QueryAllApplicationsResponseSchema, {
      applications: [{ address: "x", pendingUndelegations }, { address: "y" }],
    });
    assert.equal(
      bytesToHex(encodeMessage(application.QueryAllApplicationsResponseSchema, made)),
      "0a270a01782a0708031203120161" + "2a0708141203120162" + "2a1008ffffffffffffffffff011203120163" + "0a030a0179",
    );
  });

  test("no map has values that hold maps: those would be written in the order of their insertion", () => {
    for (const message of ALL_FILES.flatMap((file) => file.messages)) {
      for (const field of message.fields) {
        if (field.fieldKind !== "map" || field.message === undefined) continue;
        assert.ok(field.message.fields.every(({ fieldKind }) => fieldKind === "scalar" || fieldKind === "list"));
      }
    }
  });

  test("fields that a schema does not have are found at any depth, and kept", () => {
    const bytes = hex("0a024801" + "1203a20600");
    const decoded = decodeMessage(tx.TxSchema, bytes);
    assert.ok(decoded.ok);
    assert.deepEqual(findUnknownField(tx.TxSchema, decoded.message), {
      typeName: "cosmos.tx.v1beta1.TxBody",
      number: 9,
    });
    assert.equal(bytesToHex(encodeMessage(tx.TxSchema, decoded.message)), bytesToHex(bytes));
    const inList = decodeMessage(supplier.MsgStakeSupplierSchema, hex("2a0412024801"));
    assert.ok(inList.ok);
    assert.deepEqual(findUnknownField(supplier.MsgStakeSupplierSchema, inList.message), {
      typeName: "pocket.shared.SupplierEndpoint",
      number: 9,
    });
    const inMap = decodeMessage(application.ApplicationSchema, hex("2a06080112020a00"));
    assert.ok(inMap.ok);
    assert.deepEqual(findUnknownField(application.ApplicationSchema, inMap.message), {
      typeName: "pocket.application.UndelegatingGatewayList",
      number: 1,
    });
  });

  test("unknown fields of a message that can hold maps are kept", () => {
    const bytes = hex("0a0178" + "a20601ff");
    const decoded = decodeMessage(application.ApplicationSchema, bytes);
    assert.ok(decoded.ok);
    assert.equal(bytesToHex(encodeMessage(application.ApplicationSchema, decoded.message)), bytesToHex(bytes));
  });

  test("any bytes decode to a message or to a fault, and what decoded encodes to bytes that decode to the same", () => {
    const schemas = [tx.TxSchema, bank.MsgSendSchema, application.ApplicationSchema, shared.ServiceSchema] as const;
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.constantFrom(...schemas), (bytes, schema) => {
        const decoded = decodeMessage(schema, bytes);
        if (!decoded.ok) return;
        const once = encodeMessage(schema, decoded.message);
        const again = decodeMessage(schema, once);
        assert.ok(again.ok);
        assert.equal(bytesToHex(encodeMessage(schema, again.message)), bytesToHex(once));
      }),
      { numRuns: 2000 },
    );
  });

  test("a message nested too deep is a fault, not a stack overflow", () => {
    let bytes: Buffer<ArrayBufferLike> = Buffer.alloc(0);
    const varint = (value: number): Buffer =>
      value < 128 ? Buffer.from([value]) : Buffer.from([(value & 127) | 128, ...varint(value >>> 7)]);
    // ModeInfo.multi.mode_infos, without an end
    for (let depth = 0; depth < 2000; depth++) {
      const inner = Buffer.concat([Buffer.from([0x12]), varint(bytes.length), bytes]);
      bytes = Buffer.concat([Buffer.from([0x12]), varint(inner.length), inner]);
    }
    assert.equal(decodeMessage(tx.ModeInfoSchema, bytes).ok, false);
  });
});

suite("Any", () => {
  test("packs with the chain's type URL, and unpacks with any prefix", () => {
    const coin = createMessage(base.CoinSchema, { denom: "upokt", amount: "1" });
    const any = packAny(base.CoinSchema, coin);
    assert.equal(any.typeUrl, "/cosmos.base.v1beta1.Coin");
    for (const typeUrl of [any.typeUrl, "type.googleapis.com/cosmos.base.v1beta1.Coin"]) {
      const unpacked = unpackAny({ ...any, typeUrl });
      assert.ok(unpacked.ok);
      assert.equal(unpacked.message.schema.typeName, "cosmos.base.v1beta1.Coin");
      assert.deepEqual(unpacked.message.message, coin);
    }
  });

  test("an unknown type, a name without a slash and bytes of something else are faults", () => {
    const any = packAny(auth.ParamsSchema, createMessage(auth.ParamsSchema));
    for (const typeUrl of ["", "/", "/nosuch.Type", "cosmos.base.v1beta1.Coin"]) {
      const unpacked = unpackAny({ ...any, typeUrl });
      assert.deepEqual(unpacked, { ok: false, fault: `unable to resolve type URL ${typeUrl}` });
    }
    assert.equal(unpackAny({ ...any, value: hex("0a") }).ok, false);
  });
});
