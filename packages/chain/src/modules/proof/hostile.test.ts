import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { decodeClosestProof, encodeClosestProof, Rings } from "@turnpike/crypto";
import { createMessage, decodeMessage, encodeMessage, proof, service, tx } from "@turnpike/proto";
import fc from "fast-check";
import type { Context } from "../../state/context.ts";
import { GasMeter, OutOfGas } from "../../state/gas.ts";
import { Overlay } from "../../state/overlay.ts";
import { removeApplication } from "../application/state.ts";
import {
  contextAt,
  readChain,
  runRecordedBlock,
  runRecordedTxs,
  settlementMachine,
  stateBefore,
} from "../tokenomics/testing-recorded.ts";
import { createClaim, createClaimFault } from "./create-claim.ts";
import { MOST_PROOF_BYTES } from "./leaf.ts";
import { claims, getClaim, getProof } from "./state.ts";
import { GAS_PER_RING_MEMBER, submitProof, submitProofFault } from "./submit-proof.ts";
import { validateProofs } from "./validate-proofs.ts";

const record = readChain("e2e-1");
const machine = settlementMachine();
const rings = new Rings();
const PROVE = 1220n;

/** The recorded messages of one type, in order. */
function recordedMessages(typeUrl: string): Uint8Array[] {
  return record.txs.flatMap((one) => {
    const raw = decodeMessage(tx.TxRawSchema, Buffer.from(one.tx_bytes, "base64"));
    assert.ok(raw.ok);
    const body = decodeMessage(tx.TxBodySchema, raw.message.bodyBytes);
    assert.ok(body.ok);
    return body.message.messages.filter((any) => any.typeUrl === typeUrl).map((any) => any.value);
  });
}

const submissions = recordedMessages("/pocket.proof.MsgSubmitProof").map((bytes) => {
  const read = decodeMessage(proof.MsgSubmitProofSchema, bytes);
  assert.ok(read.ok);
  return read.message;
});
const [first, second] = submissions;
assert.ok(first && second);

/** The recorded chain with its claims, inside the proof window. */
function claimed(): Overlay {
  const state = stateBefore(record);
  runRecordedTxs(machine, { ...record, txs: record.txs.filter((one) => one.height === "1213") }, state);
  return state;
}

const base = claimed();
const fresh = (height = PROVE): Context => contextAt(new Overlay(base), height);
const header = first.sessionHeader;
assert.ok(header);

function refusal(ctx: Context, message: proof.MsgSubmitProof): string {
  const result = submitProof(ctx, message);
  return result.ok ? "" : result.fault.text;
}

const FIELDS = ["path", "flippedBits", "depth", "closestPath", "closestValueHash"] as const;

suite("proofs that do not fit fail their transaction", () => {
  test("another supplier of the session may not take a proof as its own", () => {
    const stolen = { ...first, supplierOperatorAddress: second.supplierOperatorAddress };
    assert.match(
      refusal(fresh(), stolen),
      /FailedPrecondition desc = supplier type mismatch: supplier operator address/,
    );
  });

  test("a stranger is not in the session", () => {
    const stranger = { ...first, supplierOperatorAddress: header.applicationAddress };
    assert.match(refusal(fresh(), stranger), /not found in session ID .*: supplier not found$/);
  });

  test("a proof of another session", () => {
    const other = submissions.find((one) => one.sessionHeader?.sessionId !== header.sessionId);
    assert.ok(other?.sessionHeader);
    const text = refusal(fresh(), {
      ...other,
      proof: first.proof,
      supplierOperatorAddress: other.supplierOperatorAddress,
    });
    assert.match(text, /supplier type mismatch|session headers application addresses mismatch/);
  });

  test("outside of the window, at either end", () => {
    assert.match(refusal(fresh(1218n), first), /is less than session's earliest proof commit height \(1219\)/);
    assert.match(refusal(fresh(1226n), first), /is greater than session proof window close height \(1225\)/);
  });

  test("another end of the session than its own", () => {
    const late = { ...first, sessionHeader: { ...header, sessionEndBlockHeight: 1220n } };
    assert.match(refusal(fresh(), late), /expected 1210, got 1220: invalid session end height$/);
  });

  test("without a claim", () => {
    const ctx = fresh();
    claims.remove(ctx, [header.sessionId, first.supplierOperatorAddress]);
    assert.match(refusal(ctx, first), /no claim found for session ID ".*" and supplier ".*": claim not found$/);
  });

  test("without the fee", () => {
    const state = new Overlay(base);
    const ctx = contextAt(state, PROVE);
    const key = [...state.range({ prefix: Buffer.concat([Buffer.from("bank/"), Buffer.of(2)]) })];
    for (const [balance] of key) state.delete(balance);
    assert.match(refusal(ctx, first), /account has no spendable coins: not enough funds to submit proof$/);
  });

  test("too large to be read", () => {
    const bytes = new Uint8Array(MOST_PROOF_BYTES + 1);
    bytes.set(first.proof);
    assert.match(refusal(fresh(), { ...first, proof: bytes }), /failed to unmarshal.*: invalid proof$/);
  });

  test("every member of a ring costs gas, so that a ring of many is paid for before it is looked at", () => {
    const used = (message: proof.MsgSubmitProof): bigint => {
      const ctx = fresh();
      assert.equal(refusal(ctx, message), "");
      return ctx.gas.used;
    };
    const closest = decodeClosestProof(first.proof);
    assert.ok(closest?.closestValueHash);
    const relay = decodeMessage(service.RelaySchema, closest.closestValueHash.subarray(0, -16));
    assert.ok(relay.ok && relay.message.req?.meta);
    const { meta } = relay.message.req;
    const signature = Buffer.concat([meta.signature, Buffer.alloc(65 * 200)]);
    const wide = encodeMessage(service.RelaySchema, {
      ...relay.message,
      req: { ...relay.message.req, meta: { ...meta, signature } },
    });
    const closestValueHash = Buffer.concat([wide, closest.closestValueHash.subarray(-16)]);
    const many = encodeClosestProof({ ...closest, closestValueHash });
    const bytes = BigInt(many.length - first.proof.length);
    const difference = used({ ...first, proof: many }) - used(first);
    assert.ok(difference >= 200n * GAS_PER_RING_MEMBER + bytes * 30n, difference.toString());
    const limited = { ...fresh(), gas: new GasMeter(100_000n) };
    assert.throws(() => submitProof(limited, { ...first, proof: many }), OutOfGas);
  });

  test("absurd headers are refused by themselves, or at the session", () => {
    const heights = fc.oneof(
      fc.constantFrom(0n, -1n, 1n, 2n ** 63n - 1n, -(2n ** 63n), 1201n, 1210n, 2n ** 62n),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    );
    fc.assert(
      fc.property(
        heights,
        heights,
        fc.string({ maxLength: 80 }),
        fc.string({ maxLength: 50 }),
        (from, to, id, serviceId) => {
          const wild = { ...header, sessionStartBlockHeight: from, sessionEndBlockHeight: to };
          for (const sessionHeader of [wild, { ...wild, sessionId: id }, { ...wild, serviceId }]) {
            const submission: proof.MsgSubmitProof = { ...first, sessionHeader };
            const claim: proof.MsgCreateClaim = createMessage(proof.MsgCreateClaimSchema, {
              supplierOperatorAddress: first.supplierOperatorAddress,
              sessionHeader,
              rootHash: new Uint8Array(48).fill(1),
            });
            const same = from === 1201n && to === 1210n && sessionHeader.sessionId === header.sessionId;
            if (same && sessionHeader.serviceId === header.serviceId) continue;
            assert.ok(submitProofFault(submission) !== undefined || refusal(fresh(), submission) !== "");
            assert.ok(createClaimFault(claim) !== undefined || !createClaim(fresh(1214n), claim).ok);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  test("random bytes and damaged proofs end in a fault or a verdict, never in a crash", () => {
    const damage = fc.array(fc.tuple(fc.nat({ max: first.proof.length - 1 }), fc.nat({ max: 255 })), {
      minLength: 1,
      maxLength: 6,
    });
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 400 }),
      damage.map((changes) => {
        const copy = Uint8Array.from(first.proof);
        for (const [at, value] of changes) copy[at] = value;
        return copy;
      }),
      fc.nat({ max: first.proof.length - 1 }).map((length) => first.proof.slice(0, length + 1)),
    );
    fc.assert(
      fc.property(bytes, (changed) => {
        const ctx = fresh();
        const result = submitProof(ctx, { ...first, proof: changed });
        validateProofs(ctx, { rings });
        assert.equal(getProof(ctx, header.sessionId, first.supplierOperatorAddress), undefined);
        const status = getClaim(ctx, header.sessionId, first.supplierOperatorAddress)?.proofValidationStatus;
        assert.ok(result.ok ? status === 1 || status === 2 : status === 0);
      }),
      { numRuns: 400 },
    );
  });
});

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

  test("an application that is gone has no ring", () => {
    const ctx = fresh();
    assert.equal(refusal(ctx, first), "");
    removeApplication(ctx, header.applicationAddress);
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

test("every part of a proof may be missing", () => {
  const closest = decodeClosestProof(first.proof);
  assert.ok(closest);
  for (const field of FIELDS) {
    const empty = field === "flippedBits" ? [] : new Uint8Array(0);
    const bytes = encodeClosestProof({ ...closest, [field]: empty });
    const ctx = fresh();
    submitProof(ctx, { ...first, proof: bytes });
    validateProofs(ctx, { rings });
  }
  const ctx = fresh();
  submitProof(ctx, { ...first, proof: encodeClosestProof({ ...closest, closestProof: undefined }) });
  validateProofs(ctx, { rings });
  assert.equal(getClaim(ctx, header.sessionId, first.supplierOperatorAddress)?.proofValidationStatus, 0);
});
