import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { concatBytes } from "@turnpike/base";
import { merkleProofs } from "@turnpike/crypto";
import { CHAIN_ID, commitOf, nextBlock, testValidators } from "@turnpike/testkit/cometbft";
import { must } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { assertSame } from "../test/recorded.ts";
import { buildBlock, describeBlock } from "./block.ts";
import { checkBlock } from "./check.ts";
import { decodeBlock, decodeCommit } from "./decode.ts";
import { consensusHash, dataHash, evidenceHash, resultsHash } from "./hashes.ts";
import { encodeCommit } from "./messages.ts";
import { isPartOf, joinParts, PART_BYTES, partSetOf } from "./part-set.ts";
import { blockToRpcJson, commitToRpcJson } from "./rpc-json.ts";
import { nsToRfc3339, nsToTimestamp, rfc3339ToNs, timestampToNs } from "./time.ts";
import { type Block, VOTE_TYPE, ZERO_BLOCK_ID, ZERO_TIME_NS } from "./types.ts";
import { signVote } from "./votes.ts";
import { varint } from "./wire.ts";

const validators = testValidators([3n, 2n, 1n]);
const first = nextBlock(validators, undefined);
const commit = commitOf(validators, first, ["commit", "nil", "absent"]);
const txs = [Uint8Array.of(1, 2, 3), new Uint8Array(0), randomBytes(150_000)];
const second = nextBlock(validators, { built: first, commit }, txs);

const faultOf = (bytes: Uint8Array): string => {
  const decoded = decodeBlock(bytes);
  return decoded.ok ? "ok" : decoded.fault;
};
const bent = (change: Partial<Block>): Block => ({ ...second.block, ...change });

test("a built block is read back, in one part or several", () => {
  for (const { bytes, block, id, parts } of [first, second]) {
    const decoded = decodeBlock(bytes);
    assert.ok(decoded.ok);
    assertSame(decoded.message, block);
    assertSame(describeBlock(decoded.message).id, id);
    assertSame(joinParts(id.parts, parts.parts), bytes);
  }
  assert.equal(first.parts.parts.length, 1);
  assert.equal(second.parts.parts.length, 3);
});

test("a part that is changed, moved, cut or missing is refused", () => {
  const { header, parts } = partSetOf(second.bytes);
  const [a, b, c] = parts;
  assert.ok(a && b && c);
  const other = Uint8Array.from(a.bytes);
  other[9] = (other[9] ?? 0) ^ 1;
  assert.equal(isPartOf(header, { ...a, bytes: other }), false);
  assert.equal(isPartOf(header, { ...a, index: 1 }), false);
  assert.equal(isPartOf(header, { ...a, bytes: a.bytes.subarray(1) }), false);
  assert.equal(isPartOf({ ...header, total: 4 }, a), false);
  assert.equal(joinParts(header, [a, b]), undefined);
  assert.equal(joinParts(header, [b, a, c]), undefined);
  assert.equal(joinParts(header, [a, a, c]), undefined);
});

test("a part that is too short for its place is refused, even with a right proof", () => {
  const pieces = [randomBytes(10), randomBytes(20)];
  const { root, proofs } = merkleProofs(pieces);
  const header = { total: 2, hash: root };
  const parts = pieces.map((bytes, index) => ({ index, bytes, proof: must(proofs[index]) }));
  assert.equal(isPartOf(header, must(parts[0])), false);
  assert.equal(isPartOf(header, must(parts[1])), true);
  assert.equal(joinParts(header, parts), undefined);
});

test("varints are protobuf's", () => {
  const hex = (value: bigint): string => Buffer.from(varint(value)).toString("hex");
  assert.deepEqual([0n, 1n, 127n, 128n, 300n].map(hex), ["00", "01", "7f", "8001", "ac02"]);
  assert.equal(hex(-1n), "ffffffffffffffffff01");
});

test("parts of any length join to the bytes again", () => {
  for (const length of [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES]) {
    const bytes = randomBytes(length);
    const { header, parts } = partSetOf(bytes);
    assert.equal(header.total, Math.ceil(length / PART_BYTES));
    assertSame(joinParts(header, parts), bytes);
  }
});

test("bytes that are no block, or not CometBFT's encoding of one, are refused", () => {
  assert.notEqual(faultOf(new Uint8Array(0)), "ok");
  assert.notEqual(faultOf(first.bytes.subarray(0, -1)), "ok");
  // An unknown field, and a field a second time.
  assert.equal(faultOf(concatBytes(first.bytes, Uint8Array.of(0x78, 1))), "not CometBFT's encoding");
  assert.equal(faultOf(concatBytes(first.bytes, Uint8Array.of(0x12, 0))), "not CometBFT's encoding");
  fc.assert(
    fc.property(fc.nat(first.bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const bytes = Uint8Array.from(first.bytes);
      bytes[at] = (bytes[at] ?? 0) ^ flip;
      const decoded = decodeBlock(bytes);
      // What is still a block is another one.
      if (decoded.ok) assert.notDeepEqual(describeBlock(decoded.message).id, first.id);
    }),
    { numRuns: 200 },
  );
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => !decodeBlock(bytes).ok));
  assert.equal(decodeCommit(encodeCommit({ ...commit, round: 3 }).subarray(0, 5)).ok, false);
});

test("a block whose header does not have the hashes of its content is refused", () => {
  const { header, lastCommit } = second.block;
  assert.equal(checkBlock(second.block), undefined);
  assert.match(checkBlock(bent({ txs: txs.slice(1) })) ?? "", /transactions/);
  assert.match(checkBlock(bent({ txs: [...txs, Uint8Array.of(9)] })) ?? "", /transactions/);
  const signatures = lastCommit.signatures.toReversed();
  assert.match(checkBlock(bent({ lastCommit: { ...lastCommit, signatures } })) ?? "", /last commit/);
  assert.match(checkBlock(bent({ header: { ...header, evidenceHash: header.dataHash } })) ?? "", /evidence/);
});

test("a malformed header is refused", () => {
  const { header } = second.block;
  const short = new Uint8Array(31);
  for (const change of [
    { version: { block: 10n, app: 0n } },
    { chainId: "c".repeat(51) },
    { height: 0n },
    { height: -1n },
    { proposerAddress: short },
    { validatorsHash: new Uint8Array(0) },
    { nextValidatorsHash: short },
    { lastResultsHash: short },
    { consensusHash: short },
    { lastBlockId: { ...header.lastBlockId, hash: short } },
  ]) {
    assert.notEqual(checkBlock(bent({ header: { ...header, ...change } })), undefined);
    assert.notEqual(faultOf(describeBlock(bent({ header: { ...header, ...change } })).bytes), "ok");
  }
});

test("a malformed last commit is refused", () => {
  const { lastCommit } = second.block;
  const absent = must(lastCommit.signatures[2]);
  const bend = (change: object): string | undefined => checkBlock(bent({ lastCommit: { ...lastCommit, ...change } }));
  assert.match(bend({ signatures: [] }) ?? "", /without/);
  assert.match(bend({ blockId: ZERO_BLOCK_ID }) ?? "", /no block/);
  assert.match(bend({ round: -1 }) ?? "", /negative/);
  assert.match(bend({ signatures: [{ ...absent, timeNs: 0n }] }) ?? "", /malformed/);
  assert.match(bend({ signatures: [{ ...absent, flag: 2 }] }) ?? "", /malformed/);
});

test("evidence of two votes goes through bytes, hash and JSON", () => {
  const content = { type: VOTE_TYPE.precommit, height: 1n, round: 0, timeNs: 5n };
  const signer = must(validators.signers[0]);
  const voteA = signVote(CHAIN_ID, { ...content, blockId: first.id }, 0, signer);
  const voteB = signVote(CHAIN_ID, { ...content, blockId: ZERO_BLOCK_ID }, 0, signer);
  const evidence = [{ voteA, voteB, totalVotingPower: 6n, validatorPower: 3n, timeNs: 7n }];
  const { header, lastCommit } = second.block;
  const built = buildBlock({ header, txs: [], evidence, lastCommit, appVersion: 2n });
  const decoded = decodeBlock(built.bytes);
  assert.ok(decoded.ok);
  assertSame(decoded.message.evidence, evidence);
  assertSame(built.block.header.evidenceHash, evidenceHash(evidence));
  const json = JSON.stringify(blockToRpcJson(built.block));
  assert.match(
    json,
    /"type":"tendermint\/DuplicateVoteEvidence","value":\{"vote_a":\{"type":2,"height":"1","round":0,/,
  );
  assert.match(json, /"extension":null,"extension_signature":null\},"TotalVotingPower":"6","ValidatorPower":"3",/);
  assert.match(json, /"version":\{"block":"11","app":"2"\}/);
});

test("an absent vote is Go's zero value in JSON", () => {
  const json = JSON.stringify(commitToRpcJson(commit));
  const absent = '{"block_id_flag":1,"validator_address":"","timestamp":"0001-01-01T00:00:00Z","signature":null}';
  assert.ok(json.endsWith(`${absent}]}`));
});

test("times keep their nanoseconds in text and in protobuf", () => {
  assert.equal(nsToRfc3339(1_700_000_000_120_000_000n), "2023-11-14T22:13:20.12Z");
  assert.equal(nsToRfc3339(-1n), "1969-12-31T23:59:59.999999999Z");
  assert.equal(nsToRfc3339(ZERO_TIME_NS), "0001-01-01T00:00:00Z");
  assert.equal(rfc3339ToNs("2023-11-14T22:13:20+01:00"), undefined);
  assert.equal(rfc3339ToNs("2023-13-14T22:13:20Z"), undefined);
  fc.assert(
    fc.property(fc.bigInt({ min: ZERO_TIME_NS, max: 253_402_300_799_999_999_999n }), (timeNs) => {
      assert.equal(rfc3339ToNs(nsToRfc3339(timeNs)), timeNs);
      assert.equal(timestampToNs(nsToTimestamp(timeNs)), timeNs);
    }),
  );
});

test("hashes of nothing, and of results by all four members", () => {
  const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  for (const hash of [dataHash([]), evidenceHash([]), resultsHash([])]) {
    assert.equal(Buffer.from(hash).toString("hex"), empty);
  }
  assert.equal(Buffer.from(consensusHash({ maxBytes: 0n, maxGas: 0n })).toString("hex"), empty);
  const result = { code: 1, data: Uint8Array.of(1), gasWanted: 2n, gasUsed: 3n };
  const others = [{ code: 2 }, { data: new Uint8Array(0) }, { gasWanted: 3n }, { gasUsed: 2n }];
  for (const other of others) assert.notDeepEqual(resultsHash([{ ...result, ...other }]), resultsHash([result]));
});
