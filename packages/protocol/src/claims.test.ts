import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { concatBytes, utf8ToBytes } from "@turnpike/base";
import { seededFloat64, sha256 } from "@turnpike/crypto";
import { fc } from "@turnpike/testkit/property";
import { claimOf, hex, RECORDED, readRecorded } from "../test/records.ts";
import {
  CLAIM_STATUS,
  type Claim,
  claimBytes,
  claimedUpokt,
  claimRootFault,
  estimatedComputeUnits,
  estimatedRelays,
  PROOF_REQUIREMENT,
  proofPath,
  proofRequirement,
  readClaimRoot,
} from "./claims.ts";
import { BASE_TARGET, targetForEma } from "./difficulty.ts";

const price = { computeUnitsToTokensMultiplier: 43_000_000n, computeUnitCostGranularity: 1_000_000n };

function rootOf(sum: bigint, count: bigint): Uint8Array {
  const tail = Buffer.alloc(16);
  tail.writeBigUInt64BE(sum, 0);
  tail.writeBigUInt64BE(count, 8);
  return concatBytes(new Uint8Array(32).fill(7), tail);
}

const claim: Claim = {
  supplierOperatorAddress: "pokt1supplier",
  sessionHeader: {
    applicationAddress: "pokt1app",
    serviceId: "svc",
    sessionId: "ab".repeat(32),
    sessionStartBlockHeight: 11n,
    sessionEndBlockHeight: 20n,
  },
  rootHash: rootOf(100n, 1n),
  proofValidationStatus: CLAIM_STATUS.pending,
};

suite("claims", () => {
  test("a root is 32 bytes of hash, then sum and count", () => {
    const root = readClaimRoot(rootOf((1n << 64n) - 1n, 3n));
    assert.deepEqual([root?.sum, root?.count, root?.hash.length], [(1n << 64n) - 1n, 3n, 32]);
    for (const length of [0, 32, 47, 49, 80]) assert.equal(readClaimRoot(new Uint8Array(length)), undefined);
  });

  test("attack: a claim without work, with too much work for its relays, or of odd length is refused", () => {
    assert.equal(claimRootFault(rootOf(300n, 3n), 100n), undefined);
    assert.equal(claimRootFault(rootOf(301n, 3n), 100n), "compute_units_mismatch");
    assert.equal(claimRootFault(rootOf(0n, 0n), 100n), "empty");
    assert.equal(claimRootFault(rootOf(0n, 3n), 100n), "empty");
    assert.equal(claimRootFault(rootOf(300n, 0n), 100n), "empty");
    assert.equal(claimRootFault(new Uint8Array(32), 100n), "malformed");
    // The real chain multiplies in 64 bits, where so many relays wrap.
    assert.equal(claimRootFault(rootOf(100n, (1n << 63n) + 1n), 100n), "compute_units_mismatch");
  });

  test("the amount is rounded once, whatever the difficulty", () => {
    // 26.0000…: 20 relays at a target of 10/13; recorded in e2e-5.
    const target = targetForEma(10n, 13n);
    assert.equal(claimedUpokt(2000n, target, price), 111_800n);
    assert.equal(estimatedComputeUnits(2000n, target), 2600n);
    assert.equal(estimatedRelays({ hash: target, sum: 2000n, count: 20n }, target), 26n);
    assert.equal(claimedUpokt(1n, BASE_TARGET, { ...price, computeUnitsToTokensMultiplier: 145_990n }), 0n);
    assert.equal(estimatedRelays({ hash: target, sum: 5n, count: 0n }, target), 0n);
    assert.equal(estimatedRelays({ hash: target, sum: 5n, count: 9n }, target), 0n);
  });

  test("prices beyond signed 64 bits are large, not negative", () => {
    const huge = { computeUnitsToTokensMultiplier: 1n << 63n, computeUnitCostGranularity: 1n };
    assert.equal(claimedUpokt(3n, BASE_TARGET, huge), 3n << 63n);
    assert.equal(claimedUpokt(3n, BASE_TARGET, { ...huge, computeUnitCostGranularity: (1n << 64n) - 1n }), 1n);
  });

  test("more work is never worth less, and splitting work into two claims never gains", () => {
    const units = fc.bigInt({ min: 0n, max: 1n << 60n });
    const ema = fc.bigInt({ min: 1n, max: 1n << 40n });
    fc.assert(
      fc.property(units, units, ema, (a, b, average) => {
        const target = targetForEma(100n, average);
        const [whole, one, two] = [a + b, a, b].map((sum) => claimedUpokt(sum, target, price));
        assert.ok(whole !== undefined && one !== undefined && two !== undefined);
        assert.ok(whole >= one && whole >= one + two);
      }),
    );
  });

  test("recorded: a claim's bytes are those of its message, until its status changes", () => {
    let compared = 0;
    for (const name of RECORDED) {
      const record = readRecorded(name);
      const messages = record.txs.map(({ tx_bytes }) => Buffer.from(tx_bytes, "base64"));
      for (const json of record.claims_before_settlement) {
        const stored = claimOf(json);
        const pending = claimBytes({ ...stored, proofValidationStatus: CLAIM_STATUS.pending });
        assert.ok(
          messages.some((bytes) => bytes.includes(pending)),
          `${name} ${stored.supplierOperatorAddress}`,
        );
        const validated = claimBytes({ ...stored, proofValidationStatus: CLAIM_STATUS.validated });
        assert.deepEqual(Buffer.from(validated), Buffer.concat([pending, Uint8Array.of(0x20, 1)]));
        compared++;
      }
    }
    assert.equal(compared, 11);
  });

  const ask = (over: Partial<Parameters<typeof proofRequirement>[0]>) =>
    proofRequirement({
      claim,
      claimedUpokt: 10n,
      thresholdUpokt: 11n,
      requestProbability: 0,
      seedBlockHash: new Uint8Array(32),
      ...over,
    });

  test("a proof is required from the threshold on, then by chance", () => {
    assert.equal(ask({}), PROOF_REQUIREMENT.notRequired);
    assert.equal(ask({ claimedUpokt: 11n }), PROOF_REQUIREMENT.threshold);
    assert.equal(ask({ requestProbability: 1 }), PROOF_REQUIREMENT.probabilistic);
    const sample = seededFloat64(sha256(claimBytes(claim)), new Uint8Array(32));
    assert.equal(ask({ requestProbability: sample }), PROOF_REQUIREMENT.probabilistic);
    assert.equal(ask({ requestProbability: sample - Number.EPSILON }), PROOF_REQUIREMENT.notRequired);
  });

  test("quirk: a claim whose proof was invalid is sampled anew, as its status is in the sample", () => {
    const outcomes = new Set<string>();
    for (let at = 0; at < 200; at++) {
      const seedBlockHash = sha256(Uint8Array.of(at));
      const at50 = (status: number) =>
        ask({ seedBlockHash, requestProbability: 0.5, claim: { ...claim, proofValidationStatus: status } });
      outcomes.add(`${at50(CLAIM_STATUS.pending)}${at50(CLAIM_STATUS.invalid)}`);
    }
    assert.deepEqual([...outcomes].sort(), ["00", "01", "10", "11"]);
  });

  test("the path to prove hashes the block and the session id as text", () => {
    const block = hex("11".repeat(32));
    const id = "885ac1cdd7f6eba49d310e5c615880ef4b3dd7d1f63e13822bfc57d667085d8b";
    assert.deepEqual(proofPath(block, id), sha256(concatBytes(block, utf8ToBytes(id))));
    assert.notDeepEqual(proofPath(block, id), sha256(concatBytes(block, hex(id))));
  });
});
