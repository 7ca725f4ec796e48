import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  type CompactClosestProof,
  closestValue,
  decodeClosestProof,
  encodeClosestProof,
  Rings,
  SumTrie,
} from "@turnpike/crypto";
import { decodeMessage, encodeMessage, service } from "@turnpike/proto";
import { relayHash } from "@turnpike/protocol";
import { base, fresh, machine, PROVE, record, refusal, submissions } from "../../../test/modules/proof/proofs.ts";
import { contextAt, runRecordedBlock } from "../../../test/modules/tokenomics/recorded.ts";
import { Overlay } from "../../state/overlay.ts";
import { applications } from "../application/state.ts";
import { getClaim, setClaim } from "./state.ts";
import { validateProofs } from "./validate-proofs.ts";

const rings = new Rings();
const [first] = submissions;
assert.ok(first);
const header = first.sessionHeader;
assert.ok(header);

suite("proofs that fit and do not hold make the claim invalid", () => {
  const verdict = (bytes: Uint8Array): { status: number | undefined; reason: string } => {
    const ctx = fresh();
    assert.equal(refusal(ctx, { ...first, proof: bytes }), "");
    validateProofs(ctx, { rings });
    const event = ctx.events.find(({ type }) => type === "pocket.proof.EventProofValidityChecked");
    const reason = event?.attributes.find(({ key }) => key === "failure_reason")?.value ?? "";
    return {
      status: getClaim(ctx, header.sessionId, first.supplierOperatorAddress)?.proofValidationStatus,
      reason: JSON.parse(reason) as string,
    };
  };
  const closest = decodeClosestProof(first.proof);
  assert.ok(closest?.closestValueHash);
  const value = closest.closestValueHash;
  const withValue = (change: (bytes: Uint8Array) => void): Uint8Array => {
    const copy = Uint8Array.from(value);
    change(copy);
    return encodeClosestProof({ ...closest, closestValueHash: copy });
  };
  // Where a part stands in the relay's bytes.
  const find = (needle: Uint8Array): number => Buffer.from(value).indexOf(needle);

  test("as recorded it holds", () => {
    assert.deepEqual(verdict(first.proof), { status: 1, reason: "" });
    assert.deepEqual(verdict(encodeClosestProof(closest)), { status: 1, reason: "" });
  });

  test("a changed application signature, request and supplier signature", () => {
    const ring = find(Buffer.from([0x12, 0xc7, 0x01, 0, 0, 0, 2]));
    assert.ok(ring > 0);
    assert.match(
      verdict(withValue((bytes) => bytes.set([(bytes[ring + 20] ?? 0) ^ 1], ring + 20))).reason,
      /invalid relay request signature$/,
    );
    const reply = Buffer.from(value).lastIndexOf(Buffer.from([0x12, 0x40]));
    assert.ok(reply > ring);
    assert.equal(
      verdict(withValue((bytes) => bytes.set([(bytes[reply + 9] ?? 0) ^ 1], reply + 9))).reason,
      "invalid signature: invalid relay response",
    );
  });

  const relay = value.subarray(0, -16);

  /** The verdict on a proof when the claim is of another trie. */
  const verdictOf = (trie: SumTrie, forged: CompactClosestProof): string => {
    const ctx = fresh();
    const stored = getClaim(ctx, header.sessionId, first.supplierOperatorAddress);
    assert.ok(stored);
    setClaim(ctx, { ...stored, rootHash: trie.root() });
    assert.equal(refusal(ctx, { ...first, proof: encodeClosestProof(forged) }), "");
    validateProofs(ctx, { rings });
    const { proofValidationStatus } = getClaim(ctx, header.sessionId, first.supplierOperatorAddress) ?? {};
    return `${proofValidationStatus} ${JSON.stringify(ctx.events.at(-1))}`;
  };

  test("attack: one honest relay does not prove a trie of made-up ones", () => {
    const trie = new SumTrie();
    trie.insert(relayHash(relay), relay, 100n);
    for (let i = 0; i < 50; i++) trie.insert(Buffer.from(`made-up ${i}`), Buffer.from("nothing"), 100n);
    const honest = trie.proveClosest(closest.closestPath);
    assert.deepEqual(Buffer.from(closestValue(honest) ?? []), Buffer.from(relay));
    // The real chain lets the leaf be any that is said to be at depth 0.
    const forged = { ...honest, path: closest.path, depth: Uint8Array.of(0), flippedBits: [] };
    assert.match(verdictOf(trie, forged), /^2 .*not the closest to the path/);
  });

  test("attack: one honest relay in many leaves is not many relays", () => {
    const trie = new SumTrie();
    for (let i = 0; i < 50; i++) trie.insert(Buffer.from(`copy ${i}`), relay, 100n);
    assert.match(verdictOf(trie, trie.proveClosest(closest.path)), /^2 .*is not where its hash belongs/);
    const once = new SumTrie();
    once.insert(relayHash(relay), relay, 100n);
    assert.match(verdictOf(once, once.proveClosest(closest.path)), /^1 /);
  });

  test("a ring of far more members than the application has is not looked at", () => {
    const decoded = decodeMessage(service.RelaySchema, relay);
    assert.ok(decoded.ok && decoded.message.req?.meta);
    const { req } = decoded.message;
    const { meta } = decoded.message.req;
    const withRing = (signature: Uint8Array): string => {
      const bytes = encodeMessage(service.RelaySchema, {
        ...decoded.message,
        req: { ...req, meta: { ...meta, signature } },
      });
      return verdict(encodeClosestProof({ ...closest, closestValueHash: Buffer.concat([bytes, value.subarray(-16)]) }))
        .reason;
    };
    // The members repeat, so that each of them is known: only their number is wrong.
    const members = (count: number): Uint8Array => {
      const count4 = Buffer.alloc(4);
      count4.writeUInt32BE(count);
      const each = meta.signature.subarray(69);
      const body = Array.from({ length: count }, (_, i) => each.subarray((i % 2) * 65, (i % 2) * 65 + 65));
      return Buffer.concat([count4, meta.signature.subarray(4, 69), ...body]);
    };
    // A ring that goes round twice closes as well: what does not fit is the relay, which has another hash.
    assert.match(withRing(members(4)), /^the proven relay is not where its hash belongs/);
    assert.match(withRing(members(200)), /200 members in the ring.*, where at most \d+ are looked at/);
  });

  test("another path, weight, and side node", () => {
    const path = Uint8Array.from(closest.path);
    path[0] = (path[0] ?? 0) ^ 1;
    assert.match(
      verdict(encodeClosestProof({ ...closest, path })).reason,
      /^the path of the proof provided \([0-9a-f]{64}\) does not match/,
    );
    assert.match(verdict(withValue((bytes) => bytes.set([1], bytes.length - 16))).reason, /weighs .* compute units/);
    const inner = closest.closestProof;
    assert.ok(inner && inner.sideNodes.length > 0);
    const sideNodes = inner.sideNodes.map((node, i) => (i === 0 ? Uint8Array.from(node, (byte) => byte ^ 1) : node));
    const { siblingData: _, ...rest } = inner;
    const broken = encodeClosestProof({ ...closest, closestProof: { ...rest, siblingData: undefined, sideNodes } });
    assert.deepEqual(verdict(broken), { status: 2, reason: "invalid closest merkle proof: invalid proof" });
  });

  test("an application that never was has no ring", () => {
    const ctx = fresh();
    assert.equal(refusal(ctx, first), "");
    applications.remove(ctx, header.applicationAddress);
    validateProofs(ctx, { rings });
    const text = JSON.stringify(ctx.events.at(-1));
    assert.match(text, /error getting ring for application address/);
  });

  test("the same proof again costs the fee again and changes nothing; a bad one after it takes the verdict away", () => {
    const ctx = fresh();
    for (const [bytes, status] of [
      [first.proof, 1],
      [first.proof, 1],
      [withValue((copy) => copy.set([1], copy.length - 16)), 2],
      [first.proof, 1],
    ] as const) {
      assert.equal(refusal(ctx, { ...first, proof: bytes }), "");
      validateProofs(ctx, { rings });
      assert.equal(getClaim(ctx, header.sessionId, first.supplierOperatorAddress)?.proofValidationStatus, status);
    }
    const twice = fresh();
    assert.equal(refusal(twice, first) + refusal(twice, first), "");
    assert.equal(twice.events.at(-1)?.type, "pocket.proof.EventProofUpdated");
  });

  test("settlement expires an invalid claim, slashes its supplier and pays the others", () => {
    const state = new Overlay(base);
    const ctx = contextAt(state, PROVE);
    for (const submission of submissions) {
      const bytes: Uint8Array =
        submission === first ? withValue((copy) => copy.set([1], copy.length - 16)) : submission.proof;
      assert.equal(refusal(ctx, { ...submission, proof: bytes }), "");
    }
    validateProofs(ctx, { rings });
    const { events } = runRecordedBlock(machine, record, state, BigInt(record.settlement_height), []);
    const count = (type: string) => events.filter((event) => event.type === `pocket.tokenomics.${type}`).length;
    assert.deepEqual(["EventClaimExpired", "EventSupplierSlashed", "EventClaimSettled"].map(count), [1, 1, 3]);
    const expired = events.find(({ type }) => type === "pocket.tokenomics.EventClaimExpired");
    assert.ok(expired?.attributes.some(({ value: text }) => text === '"PROOF_INVALID"'));
  });
});
