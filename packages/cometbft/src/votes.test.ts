import assert from "node:assert/strict";
import { test } from "node:test";
import { CHAIN_ID, commitOf, nextBlock, testValidators, type Way } from "@turnpike/testkit/cometbft";
import { must } from "@turnpike/testkit/fixtures";
import { type Commit, type CommitSig, VOTE_TYPE, ZERO_BLOCK_ID, ZERO_TIME_NS } from "./types.ts";
import { commitSigOf, medianTimeNs, signVote, verifyCommit, verifyVote, voteSignBytes, voteTimeNs } from "./votes.ts";

const validators = testValidators([40n, 30n, 20n, 10n]);
const block = nextBlock(validators, undefined);
const commit = commitOf(validators, block);
const {
  id,
  block: {
    header: { height, timeNs },
  },
} = block;

function faultOf(bent: Commit, change: { readonly chainId?: string; readonly height?: bigint } = {}): string {
  const check = { chainId: CHAIN_ID, validators: validators.set, blockId: id, height, commit: bent, ...change };
  const verdict = verifyCommit(check);
  return verdict.ok ? "ok" : verdict.fault;
}

function bend(index: number, change: Partial<CommitSig>): Commit {
  const signatures = commit.signatures.map((sig, i) => (i === index ? { ...sig, ...change } : sig));
  return { ...commit, signatures };
}

const voted = (...ways: readonly Way[]): string => faultOf(commitOf(validators, block, ways));

test("a commit needs more than two thirds of the power for the block", () => {
  assert.equal(voted(), "ok");
  assert.equal(voted("commit", "commit", "absent", "absent"), "ok");
  assert.equal(voted("absent", "commit", "commit", "commit"), "too_little_power");
  assert.equal(voted("commit", "absent", "commit", "absent"), "too_little_power");
  // 66 of 100 are two thirds rounded down, and not more.
  const odd = testValidators([66n, 34n]);
  const built = nextBlock(odd, undefined);
  const check = { chainId: CHAIN_ID, validators: odd.set, blockId: built.id, height: 1n };
  const verdict = verifyCommit({ ...check, commit: commitOf(odd, built, ["commit", "absent"]) });
  assert.deepEqual(verdict, { ok: false, fault: "too_little_power" });
});

test("votes for no block are verified but do not count", () => {
  assert.equal(voted("commit", "commit", "nil", "nil"), "ok");
  assert.equal(voted("nil", "commit", "commit", "commit"), "too_little_power");
  const nil = commitOf(validators, block, ["commit", "commit", "nil"]);
  const relabelled = nil.signatures.map((sig) => ({ ...sig, flag: 2 as const }));
  assert.equal(faultOf({ ...nil, signatures: relabelled }), "wrong_signature");
});

test("a forged signature fails, even when enough others are right", () => {
  const signature = Uint8Array.from(must(commit.signatures[3]).signature);
  signature[5] = (signature[5] ?? 0) ^ 1;
  assert.equal(faultOf(bend(3, { signature })), "wrong_signature");
  assert.equal(faultOf(bend(3, { signature: signature.subarray(1) })), "malformed_signature");
  assert.equal(faultOf(bend(3, { signature: new Uint8Array(0) })), "malformed_signature");
});

test("one validator's signature cannot stand in another's place", () => {
  assert.equal(faultOf(bend(1, must(commit.signatures[0]))), "wrong_address");
  const { signature } = must(commit.signatures[0]);
  assert.equal(faultOf(bend(1, { signature })), "wrong_signature");
});

test("an address beside a signature that is another's fails, so that nobody bends the median time", () => {
  assert.equal(faultOf(bend(0, { validatorAddress: must(commit.signatures[1]).validatorAddress })), "wrong_address");
  assert.equal(faultOf(bend(0, { validatorAddress: new Uint8Array(20) })), "wrong_address");
});

test("signatures are bound to chain, height, round, block and time", () => {
  assert.equal(faultOf(commit, { chainId: "another" }), "wrong_signature");
  assert.equal(faultOf({ ...commit, round: 1 }), "wrong_signature");
  assert.equal(faultOf({ ...commit, round: -1 }), "wrong_height");
  assert.equal(faultOf(commit, { height: height + 1n }), "wrong_height");
  assert.equal(faultOf({ ...commit, height: height + 1n }, { height: height + 1n }), "wrong_signature");
  assert.equal(faultOf({ ...commit, blockId: ZERO_BLOCK_ID }), "wrong_block");
  assert.equal(faultOf({ ...commit, blockId: { ...id, parts: { ...id.parts, total: 2 } } }), "wrong_block");
  assert.equal(faultOf(bend(2, { timeNs: timeNs + 5n })), "wrong_signature");
});

test("a commit has one place for each validator", () => {
  assert.equal(faultOf({ ...commit, signatures: commit.signatures.slice(0, 3) }), "wrong_size");
  assert.equal(faultOf({ ...commit, signatures: [...commit.signatures, must(commit.signatures[0])] }), "wrong_size");
  const absent = {
    flag: 1,
    signature: new Uint8Array(0),
    validatorAddress: new Uint8Array(0),
    timeNs: ZERO_TIME_NS,
  } as const;
  assert.equal(faultOf(bend(3, absent)), "ok");
  assert.equal(faultOf(bend(3, { flag: 1 })), "malformed_signature");
  assert.equal(faultOf(bend(3, { ...absent, timeNs })), "malformed_signature");
});

test("a vote is bound to its key and kind", () => {
  const [first, second] = validators.signers;
  const content = { type: VOTE_TYPE.prevote, height, round: 2, blockId: id, timeNs };
  const vote = signVote(CHAIN_ID, content, 0, must(first));
  const { publicKey } = must(first);
  assert.ok(verifyVote(CHAIN_ID, vote, publicKey));
  assert.equal(verifyVote(CHAIN_ID, vote, must(second).publicKey), false);
  assert.equal(verifyVote("another", vote, publicKey), false);
  assert.equal(verifyVote(CHAIN_ID, { ...vote, type: VOTE_TYPE.precommit }, publicKey), false);
  assert.equal(verifyVote(CHAIN_ID, { ...vote, blockId: ZERO_BLOCK_ID }, publicKey), false);
  assert.equal(commitSigOf({ ...vote, blockId: ZERO_BLOCK_ID }).flag, 3);
});

test("sign bytes of a long chain id have a length of two bytes", () => {
  const content = { type: VOTE_TYPE.precommit, height: 1n, round: 0, blockId: id, timeNs };
  const bytes = voteSignBytes("c".repeat(50), content);
  assert.equal((bytes[0] ?? 0) - 128 + (bytes[1] ?? 0) * 128, bytes.length - 2);
});

test("a vote is at least a millisecond after its block", () => {
  assert.equal(voteTimeNs(5_000_000n, 1_000_000n), 5_000_000n);
  assert.equal(voteTimeNs(5_000_000n, 5_000_000n), 6_000_000n);
  assert.equal(voteTimeNs(1n, 5_000_000n), 6_000_000n);
});

test("the median time is weighed by power, and a minority cannot move it out of the others' times", () => {
  const ms = 1_000_000n;
  assert.equal(medianTimeNs(commit, validators.set), timeNs + 2n * ms);
  const early = bend(3, { timeNs: 0n });
  const late = bend(3, { timeNs: timeNs * 2n });
  assert.equal(medianTimeNs(early, validators.set), timeNs + ms);
  assert.equal(medianTimeNs(late, validators.set), timeNs + 2n * ms);
  const noneKnown = { ...commit, signatures: commit.signatures.map((sig) => ({ ...sig, flag: 1 as const })) };
  assert.equal(medianTimeNs(noneKnown, validators.set), undefined);
  assert.equal(medianTimeNs(bend(0, { validatorAddress: new Uint8Array(20) }), validators.set), timeNs + 2n * ms);
});
