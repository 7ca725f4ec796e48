import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import {
  application,
  authz,
  bank,
  cryptoMultisig,
  decodeMessage,
  encodeMessage,
  tokenomics,
  tx as txs,
  typeUrlOf,
} from "@turnpike/proto";
import { boundsFault } from "./read-message.ts";

const BYTES = WireType.LengthDelimited;
const NUM_HIDDEN = 100_000;

/** Members of a multisignature, more than a key may have: two bytes each. */
function manyMembers(): Uint8Array {
  const writer = new BinaryWriter();
  for (let i = 0; i < NUM_HIDDEN; i++) writer.tag(2, BYTES).bytes(new Uint8Array(0));
  return writer.finish();
}

/** Messages of a body, more than it may have. */
function manyMessages(): Uint8Array {
  const writer = new BinaryWriter();
  for (let i = 0; i < NUM_HIDDEN; i++) writer.tag(1, BYTES).bytes(new Uint8Array(0));
  return writer.finish();
}

const typeUrl = typeUrlOf(cryptoMultisig.LegacyAminoPubKeySchema);
const anyParts = [
  new BinaryWriter().tag(1, BYTES).string(typeUrl).finish(),
  new BinaryWriter().tag(2, BYTES).bytes(manyMembers()).finish(),
];

suite("bounds of bytes that two readers could read in two ways", () => {
  test("an Any in two parts hides no list from the bounds", () => {
    const writer = new BinaryWriter();
    for (const part of anyParts) writer.tag(1, BYTES).bytes(part);
    assert.match(
      boundsFault(txs.SignerInfoSchema, writer.finish()) ?? "",
      /SignerInfo.public_key has more than 1 items/,
    );
  });

  test("an Any whose type comes last hides none", () => {
    const any = new BinaryWriter()
      .raw(anyParts[1] ?? new Uint8Array(0))
      .raw(anyParts[0] ?? new Uint8Array(0))
      .finish();
    const bytes = new BinaryWriter().tag(1, BYTES).bytes(any).finish();
    assert.match(
      boundsFault(txs.SignerInfoSchema, bytes) ?? "",
      /public_keys has more than 128 items|more than \d+ parts/,
    );
  });

  test("a message in parts has no longer lists than one in one part", () => {
    const fragment = new BinaryWriter();
    const coin = new BinaryWriter().tag(1, BYTES).string("a".repeat(50)).finish();
    for (let i = 0; i < 900; i++) fragment.tag(1, BYTES).bytes(coin);
    const writer = new BinaryWriter();
    for (let i = 0; i < 4; i++) writer.tag(2, BYTES).bytes(fragment.finish());
    assert.match(boundsFault(txs.AuthInfoSchema, writer.finish()) ?? "", /AuthInfo.fee has more than 1 items/);
  });

  const hidden = manyMessages();
  const covers: Readonly<Record<string, Uint8Array>> = {
    "a group that ends": new BinaryWriter().tag(1_024, WireType.StartGroup).tag(1_024, WireType.EndGroup).finish(),
    "a number of eleven bytes": new BinaryWriter()
      .tag(1_024, WireType.Varint)
      .raw(new Uint8Array(11).fill(0x80).with(10, 0))
      .finish(),
    "a length beyond 32 bits": Uint8Array.of(0x82, 0x40, 0x80, 0x80, 0x80, 0x80, 0x10),
  };
  for (const [name, cover] of Object.entries(covers)) {
    test(`${name} hides nothing that stands behind it`, () => {
      const bytes = new BinaryWriter().raw(cover).raw(hidden).finish();
      const decoded = decodeMessage(txs.TxBodySchema, bytes);
      assert.ok(!decoded.ok || decoded.message.messages.length === NUM_HIDDEN, "the decoder reads what is hidden");
      assert.notEqual(boundsFault(txs.TxBodySchema, bytes), undefined);
    });
  }

  test("a list of a wire type that it does not have is refused", () => {
    // A decoder that reads a length whatever the wire type says finds the list; one that reads a number finds one unknown field.
    const inner = new BinaryWriter().tag(1_025, BYTES).bytes(hidden).finish();
    const bytes = new BinaryWriter().tag(1, WireType.Varint).raw(inner).finish();
    assert.match(boundsFault(txs.TxBodySchema, bytes) ?? "", /TxBody.messages has the wire type 0/);
  });

  test("a value that ends beyond its message is refused", () => {
    const bytes = new BinaryWriter()
      .tag(3, BYTES)
      .raw(Uint8Array.of(2, 0x0a, 0x20))
      .raw(new Uint8Array(40).fill(0x80))
      .finish();
    assert.notEqual(boundsFault(bank.MsgMultiSendSchema, bytes), undefined);
    assert.notEqual(boundsFault(authz.MsgGrantSchema, bytes), undefined);
  });

  test("lists in the values of maps are counted", () => {
    const list = new BinaryWriter();
    for (let i = 0; i < 2_000; i++) list.tag(2, BYTES).string("pokt1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    const entry = new BinaryWriter().tag(1, WireType.Varint).uint64(5n).tag(2, BYTES).bytes(list.finish()).finish();
    const bytes = new BinaryWriter().tag(5, BYTES).bytes(entry).finish();
    assert.match(boundsFault(application.ApplicationSchema, bytes) ?? "", /gateway_addresses has more than 1000 items/);
  });

  test("messages that this package writes pass", () => {
    const pending = { 5: { gatewayAddresses: ["a", "b"] }, 9: { gatewayAddresses: [] } };
    const app = decodeMessage(application.ApplicationSchema, new Uint8Array(0));
    assert.ok(app.ok);
    const bytes = encodeMessage(application.ApplicationSchema, {
      ...app.message,
      pendingUndelegations: Object.fromEntries(
        Object.entries(pending).map(([height, list]) => [
          height,
          { $typeName: "pocket.application.UndelegatingGatewayList" as const, ...list },
        ]),
      ),
    });
    assert.equal(boundsFault(application.ApplicationSchema, bytes), undefined);
    const event = decodeMessage(tokenomics.EventClaimSettledSchema, new Uint8Array(0));
    assert.ok(event.ok);
    const settled = { ...event.message, rewardDistribution: { pokt1a: "5upokt", pokt1b: "" } };
    const eventBytes = encodeMessage(tokenomics.EventClaimSettledSchema, settled);
    assert.equal(boundsFault(tokenomics.EventClaimSettledSchema, eventBytes), undefined);
  });
});
