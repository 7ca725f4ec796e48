import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesToBase64, bytesToHex, type NetworkId, type SettlementId, utf8ToBytes } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { x402Client } from "@x402/core/client";
import { decodePaymentResponseHeader, encodePaymentSignatureHeader } from "@x402/core/http";
import { PaymentPayloadV2Schema } from "@x402/core/schemas";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import {
  appendPaymentIdentifierToExtensions,
  declarePaymentIdentifierExtension,
} from "@x402/extensions/payment-identifier";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { decodePaymentHeader, encodeReceipt } from "./header.ts";
import { matchOption, paymentOption } from "./option.ts";
import type { PresentedPayment } from "./types.ts";

const option = paymentOption(
  {
    network: "eip155:84532" as NetworkId,
    asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    name: "USDC",
    version: "2",
    decimals: 6,
    maxTimeoutSeconds: 60,
  },
  "0.005000",
);
const authorization = {
  from: `0x${"aB".repeat(20)}`,
  to: option.payTo,
  value: "5000",
  validAfter: "0",
  validBefore: "1800000000",
  nonce: `0x${"Cd".repeat(32)}`,
};
const signature = `0x${"11".repeat(65)}`;
const good = { x402Version: 2, accepted: option, payload: { signature, authorization } };

const encode = (value: unknown): string => bytesToBase64(utf8ToBytes(JSON.stringify(value)));
const ok = (header: string): PresentedPayment => {
  const found = decodePaymentHeader(header);
  assert.ok(found.ok, "message" in found ? found.message : "");
  return found.payment;
};
const refused = (header: string, part?: RegExp): void => {
  const found = decodePaymentHeader(header);
  assert.ok(!found.ok, header.slice(0, 200));
  assert.equal(found.code, "PAYMENT_MALFORMED");
  assert.match(found.message ?? "", part ?? /^The PAYMENT-SIGNATURE header /);
};
const withAuthorization = (more: object): object => ({
  ...good,
  payload: { signature, authorization: { ...authorization, ...more } },
});

test("a good header is read exactly", () => {
  const header = encode(good);
  const payment = ok(header);
  assert.deepEqual(payment.authorization, {
    from: authorization.from,
    to: option.payTo,
    value: 5_000n,
    validAfter: 0n,
    validBefore: 1_800_000_000n,
    nonce: `0x${"cd".repeat(32)}`,
  });
  assert.equal(payment.signature.length, 65);
  assert.equal(payment.identifier, undefined);
  assert.equal(bytesToHex(payment.payloadDigest), bytesToHex(sha256(utf8ToBytes(JSON.stringify(good)))));
  assert.equal(matchOption(payment.accepted, [option]), option);
});

test("what the reference client makes is read, and its schema agrees", async () => {
  const account = privateKeyToAccount(generatePrivateKey());
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(account));
  const extensions = { "payment-identifier": declarePaymentIdentifierExtension(true) };
  for (const id of [undefined, "pay_0123456789abcdef"]) {
    const payload = await client.createPaymentPayload({
      x402Version: 2,
      error: "Payment required",
      resource: { url: "https://gw.example/v1/eth", description: "d", mimeType: "application/json" },
      accepts: [{ ...option, network: "eip155:84532", extra: { ...option.extra } }],
      extensions: structuredClone(extensions),
    });
    if (id !== undefined) {
      payload.extensions = appendPaymentIdentifierToExtensions(structuredClone(extensions), id);
    }
    assert.ok(PaymentPayloadV2Schema.safeParse(payload).success);
    const payment = ok(encodePaymentSignatureHeader(payload));
    assert.equal(payment.authorization.from, account.address);
    assert.equal(payment.authorization.value, 5_000n);
    assert.equal(payment.identifier, id);
    assert.equal(matchOption(payment.accepted, [option]), option);
  }
});

test("what is not one strict payload is refused", () => {
  const header = encode(good);
  for (const bad of [
    "",
    "====",
    header.replace(/=*$/, ""),
    ` ${header}`,
    `${header}\n`,
    `${header}, ${header}`,
    header.replaceAll("A", "-"),
    bytesToBase64(Uint8Array.of(0x22, 0xff, 0x22)),
    encode(null),
    encode([good]),
    encode("x"),
    bytesToBase64(utf8ToBytes(`${JSON.stringify(good)} {}`)),
    bytesToBase64(utf8ToBytes(JSON.stringify(good).replace(`"value":"5000"`, `"value":"1","value":"5000"`))),
    bytesToBase64(utf8ToBytes(`{"__proto__":${JSON.stringify(good)}}`)),
    encode({ ...good, x402Version: 1 }),
    encode({ ...good, x402Version: "2" }),
    encode({ ...good, accepted: [option] }),
    encode({ ...good, accepted: undefined }),
    encode({ ...good, payload: null }),
    encode({ ...good, payload: { authorization } }),
    encode({ ...good, payload: { signature } }),
    encode({ ...good, payload: { signature, authorization: [authorization] } }),
    encode({ ...good, extensions: 5 }),
    encode({ ...good, extra: JSON.parse("[".repeat(24) + "]".repeat(24)) as unknown }),
    encode({ ...good, extra: Array.from({ length: 4_100 }, () => 1) }),
    encode({ ...good, extra: "x".repeat(20_000) }),
  ]) {
    refused(bad);
  }
});

test("every member of the authorization is typed exactly", () => {
  const bad: Record<string, readonly unknown[]> = {
    from: [
      undefined,
      null,
      1,
      "",
      "0x",
      `0x${"ab".repeat(19)}`,
      `${"ab".repeat(20)}`,
      `0x${"ag".repeat(20)}`,
      `0X${"ab".repeat(20)}`,
    ],
    to: [undefined, [option.payTo], `${option.payTo} `, `${option.payTo}\n`],
    value: [
      undefined,
      5_000,
      "",
      "05000",
      "+5000",
      "-1",
      "5e3",
      "0x1388",
      " 5000",
      "5000\n",
      "5_000",
      "٥",
      "9".repeat(79),
      (2n ** 256n).toString(),
    ],
    validAfter: [undefined, 0, "-0", "00", "0.0"],
    validBefore: [undefined, 1_800_000_000, "1800000000.5", {}],
    nonce: [undefined, "", 1, `0x${"cd".repeat(31)}`, `0x${"cd".repeat(33)}`, "cd".repeat(32), `0x${"cg".repeat(32)}`],
  };
  for (const [key, values] of Object.entries(bad)) {
    for (const value of values)
      refused(encode(withAuthorization({ [key]: value })), new RegExp(`authorization\\.${key}`));
  }
  assert.equal(
    ok(encode(withAuthorization({ value: (2n ** 256n - 1n).toString() }))).authorization.value,
    2n ** 256n - 1n,
  );
});

test("signatures are hex of 1 to 8,192 bytes", () => {
  for (const bad of [undefined, 1, "", "0x", "0x1", "11".repeat(65), "0xzz", `0x${"11".repeat(65)} `]) {
    refused(encode({ ...good, payload: { signature: bad, authorization } }), /signature/);
  }
  const long = { signature: `0x${"11".repeat(5_000)}`, authorization };
  assert.equal(ok(encode({ ...good, payload: long })).signature.length, 5_000);
  assert.ok(!decodePaymentHeader(encode({ ...good, payload: long }), { maxSignatureBytes: 4_999 }).ok);
});

test("a payment identifier is taken when good, and refused when bad", () => {
  const withId = (id: unknown): string =>
    encode({ ...good, extensions: { "payment-identifier": { info: { required: false, id } } } });
  assert.equal(ok(withId("a".repeat(16))).identifier, "a".repeat(16));
  assert.equal(ok(withId(`Z_-9${"a".repeat(124)}`)).identifier?.length, 128);
  assert.equal(ok(withId(undefined)).identifier, undefined);
  assert.equal(ok(encode({ ...good, extensions: { bazaar: {} } })).identifier, undefined);
  for (const bad of ["a".repeat(15), "a".repeat(129), `${"a".repeat(16)}\n`, "a b".repeat(6), 5, null, {}, ["x"]]) {
    refused(withId(bad), /payment-identifier/);
  }
  refused(encode({ ...good, extensions: { "payment-identifier": 1 } }), /payment-identifier/);
});

test("an answer key is noted when good, and refused when bad", () => {
  const withKey = (key: unknown): string => encode({ ...good, extensions: { "answer-key": { info: { key } } } });
  assert.equal(ok(withKey("a".repeat(22))).hasAnswerKey, true);
  assert.equal(ok(withKey(`Z_-9${"a".repeat(124)}`)).hasAnswerKey, true);
  assert.equal(ok(withKey(undefined)).hasAnswerKey, false);
  assert.equal(ok(encode(good)).hasAnswerKey, false);
  for (const bad of ["a".repeat(21), "a".repeat(129), `${"a".repeat(22)}\n`, "a b".repeat(8), 5, null, {}, ["x"]]) {
    refused(withKey(bad), /answer-key/);
  }
  refused(encode({ ...good, extensions: { "answer-key": 1 } }), /answer-key/);
});

test("terms as deep as the catalogue makes them are taken back, and terms of more than 24 levels are not", () => {
  const withTerms = (levels: number): string =>
    // Terms stand at the same depth in a payment: its top is their first level.
    encode({ ...good, extensions: JSON.parse(`${'{"a":'.repeat(levels - 1)}1${"}".repeat(levels - 1)}`) as unknown });
  ok(withTerms(16));
  ok(withTerms(24));
  refused(withTerms(25), /nested too deeply/);
});

test("unknown members beside the payload are left alone", () => {
  const payment = ok(encode({ ...good, resource: { url: 5 }, extensions: { x: { y: [1] } }, more: { z: null } }));
  assert.equal(payment.authorization.value, 5_000n);
  const polluted = `{"__proto__":{"signature":"0x11"},${JSON.stringify(good).slice(1)}`;
  assert.equal(ok(bytesToBase64(utf8ToBytes(polluted))).signature.length, 65);
  assert.equal(({} as Record<string, unknown>).signature, undefined);
});

test("any header is decoded or refused, without a throw or an echo", () => {
  const secret = "sEcReTsEcReT";
  const junk = fc.jsonValue({ maxDepth: 4 });
  const members = fc.record(
    {
      x402Version: fc.oneof(fc.constant(2), junk),
      accepted: fc.oneof(fc.constant<unknown>(option), junk),
      payload: fc.oneof(
        junk,
        fc.record(
          {
            signature: fc.oneof(fc.constant<unknown>(signature), junk),
            authorization: fc.oneof(
              junk,
              fc.record(
                Object.fromEntries(
                  Object.entries(authorization).map(([key, value]) => [
                    key,
                    fc.oneof(fc.constant<unknown>(value), junk),
                  ]),
                ),
                { requiredKeys: [] },
              ),
            ),
          },
          { requiredKeys: [] },
        ),
      ),
      extensions: junk,
      [secret]: junk,
    },
    { requiredKeys: [] },
  );
  const header = fc.oneof(
    members.map(encode),
    junk.map(encode),
    fc.string({ unit: anyCodePoint, maxLength: 300 }),
    fc.base64String({ maxLength: 400 }),
    fc.uint8Array({ maxLength: 300 }).map(bytesToBase64),
    // One byte of a good one bent.
    fc.tuple(fc.nat(JSON.stringify(good).length - 1), fc.nat(255)).map(([at, byte]) => {
      const bytes = Uint8Array.from(utf8ToBytes(JSON.stringify(good)));
      bytes[at] = byte;
      return bytesToBase64(bytes);
    }),
  );
  let read = 0;
  fc.assert(
    fc.property(header, (text) => {
      const found = decodePaymentHeader(text);
      if (found.ok) {
        read++;
        assert.ok(found.payment.authorization.value < 2n ** 256n);
        assert.match(found.payment.authorization.nonce, /^0x[0-9a-f]{64}$/);
        return;
      }
      assert.equal(found.code, "PAYMENT_MALFORMED");
      assert.match(found.message ?? "", /^The PAYMENT-SIGNATURE header [a-zA-Z0-9 `.,-]+\.$/);
      assert.ok(!found.message?.includes(secret));
    }),
    { numRuns: 10_000 },
  );
  assert.ok(read > 10, `only ${read} were read: the fuzz is blind`);
});

test("receipts go through the header, as the reference client reads it", () => {
  const receipt = {
    success: false,
    transaction: `0x${"12".repeat(32)}`,
    network: option.network,
    payer: `0x${"ab".repeat(20)}` as const,
    errorReason: "settlement_pending",
    amount: "5000",
    extensions: { settlement: { id: "abc" as SettlementId, status: "pending" } },
  };
  assert.deepEqual(decodePaymentResponseHeader(encodeReceipt(receipt)), receipt);
});
