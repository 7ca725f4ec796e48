import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { decodeClosestProof, encodeClosestProof, Rings } from "@turnpike/crypto";
import { createMessage, decodeMessage, encodeMessage, proof, service } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { base, fresh, PROVE, refusal, submissions } from "../../../test/modules/proof/proofs.ts";
import { contextAt } from "../../../test/modules/tokenomics/recorded.ts";
import { GasMeter, OutOfGas } from "../../state/gas.ts";
import { Overlay } from "../../state/overlay.ts";
import { createClaim, createClaimFault } from "./create-claim.ts";
import { MOST_PROOF_BYTES } from "./leaf.ts";
import { claims, getClaim, getProof } from "./state.ts";
import { GAS_PER_RING_MEMBER, submitProofFault } from "./submit-proof.ts";
import { validateProofs } from "./validate-proofs.ts";

const rings = new Rings();
const [first, second] = submissions;
assert.ok(first && second);
const header = first.sessionHeader;
assert.ok(header);

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
    assert.ok(difference >= 198n * GAS_PER_RING_MEMBER + bytes * 30n, difference.toString());
    // A millisecond of the block's end for each, at no more than three times a send's time for its gas.
    assert.ok(difference >= 200n * 10_000n, difference.toString());
    const limited = { ...fresh(), gas: new GasMeter(100_000n) };
    assert.throws(() => refusal(limited, { ...first, proof: many }), OutOfGas);
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
        const refused = refusal(ctx, { ...first, proof: changed });
        validateProofs(ctx, { rings });
        assert.equal(getProof(ctx, header.sessionId, first.supplierOperatorAddress), undefined);
        const status = getClaim(ctx, header.sessionId, first.supplierOperatorAddress)?.proofValidationStatus;
        assert.ok(refused === "" ? status === 1 || status === 2 : status === 0);
      }),
      { numRuns: 400 },
    );
  });
});

test("every part of a proof may be missing", () => {
  const closest = decodeClosestProof(first.proof);
  assert.ok(closest);
  for (const field of FIELDS) {
    const empty = field === "flippedBits" ? [] : new Uint8Array(0);
    const bytes = encodeClosestProof({ ...closest, [field]: empty });
    const ctx = fresh();
    refusal(ctx, { ...first, proof: bytes });
    validateProofs(ctx, { rings });
  }
  const ctx = fresh();
  refusal(ctx, { ...first, proof: encodeClosestProof({ ...closest, closestProof: undefined }) });
  validateProofs(ctx, { rings });
  assert.equal(getClaim(ctx, header.sessionId, first.supplierOperatorAddress)?.proofValidationStatus, 0);
});
