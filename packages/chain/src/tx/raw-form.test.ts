import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { parseAddress } from "../state/addresses.ts";
import { decodeTx } from "./decode.ts";

const textOf = (hex: string): string => {
  const decoded = decodeTx(Buffer.from(hex, "hex"), new Map());
  assert.ok(!decoded.ok);
  return decoded.fault.text;
};

suite("texts of what is no transaction and no address", () => {
  const forms = {
    "000000": "invalid length; proto: invalid field number",
    "0a": "invalid length; unexpected EOF",
    "0a05": "invalid length; unexpected EOF",
    "0a050102": "invalid length; unexpected EOF",
    "0801": "expected 2 wire type, got 0",
    "12000a00": "txRaw must follow ADR-027, got tagNum 1 after tagNum 2",
    "0a8000": "length prefix varint for tagNum 1 is not as short as possible, read 2, only need 1",
    "0affffffffffffffffff7f": "invalid length; variable length integer overflow",
  };
  for (const [hex, text] of Object.entries(forms)) {
    test(`the bytes ${hex}: ${text}`, () => assert.equal(textOf(hex), `${text}: tx parse error: tx parse error`));
  }

  test("every beginning of a transaction that is cut within a field", () => {
    const whole = "0a03010203120401020304";
    for (const bytes of [1, 2, 4, 6, 10]) {
      assert.equal(textOf(whole.slice(0, 2 * bytes)), "invalid length; unexpected EOF: tx parse error: tx parse error");
    }
  });

  test("an address with a wrong checksum, or a foreign character", () => {
    const texts = {
      pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje9: "invalid checksum (expected 45jje8 got 45jje9)",
      POKT1UV05FGVML8SXSJG296KTWP4Z2Q6PUFFU45JJE9: "invalid checksum (expected 45jje8 got 45jje9)",
      pokt1nosuchaddress: "invalid character not part of charset: 111",
    };
    for (const [address, text] of Object.entries(texts)) {
      const parsed = parseAddress(address);
      assert.ok(!parsed.ok);
      assert.equal(parsed.fault.text, `decoding bech32 failed: ${text}: invalid address`);
    }
  });
});
