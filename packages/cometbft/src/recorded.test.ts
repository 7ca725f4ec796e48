import assert from "node:assert/strict";
import { test } from "node:test";
import { base64ToBytes, bytesToHex } from "@turnpike/base";
import { validatorKeyAddress } from "@turnpike/crypto";
import { must } from "@turnpike/testkit/fixtures";
import { assertSame, readBlock, readCommit, readHeader, readId, recorded, recordedSet } from "../test/recorded.ts";
import { describeBlock } from "./block.ts";
import { decodeBlock, decodeCommit } from "./decode.ts";
import { commitHash, consensusHash, dataHash, evidenceHash, headerHash, resultsHash } from "./hashes.ts";
import { encodeCommit } from "./messages.ts";
import { isPartOf } from "./part-set.ts";
import { blockIdToRpcJson, blockToRpcJson, commitToRpcJson, headerToRpcJson, validatorToRpcJson } from "./rpc-json.ts";
import type { Commit } from "./types.ts";
import { createValidatorSet, validatorsHash } from "./validator-set.ts";
import { verifyLightBlock, verifyNextBlock, verifyNextHeader } from "./verify.ts";
import { medianTimeNs, verifyCommit } from "./votes.ts";

const { chain_id: chainId } = recorded;
const blocks = recorded.blocks.map(({ block_id: id, block }) => ({ id: readId(id), block: readBlock(block) }));

function blockAt(height: bigint): (typeof blocks)[number] {
  return must(blocks.find(({ block }) => block.header.height === height));
}

function checkCommitOf(commit: Commit): void {
  const { height, blockId } = commit;
  const verdict = verifyCommit({ chainId, validators: recordedSet(height), blockId, height, commit });
  assert.ok(verdict.ok, `commit of ${height}`);
}

test("every hash of every recorded block is what the real chain wrote", () => {
  assert.equal(blocks.length, 11);
  for (const { id, block } of blocks) {
    const { header, txs, evidence, lastCommit } = block;
    assertSame(headerHash(header), id.hash);
    assertSame(dataHash(txs), header.dataHash);
    assertSame(commitHash(lastCommit), header.lastCommitHash);
    assertSame(evidenceHash(evidence), header.evidenceHash);
    assertSame(validatorsHash(recordedSet(header.height)), header.validatorsHash);
    const { max_bytes: maxBytes, max_gas: maxGas } = recorded.block_params;
    assertSame(consensusHash({ maxBytes: BigInt(maxBytes), maxGas: BigInt(maxGas) }), header.consensusHash);
    const described = describeBlock(block);
    assertSame(described.id, id);
    assert.ok(described.parts.parts.every((part) => isPartOf(id.parts, part)));
  }
});

test("headers and sizes of recorded block metas are what the real chain wrote", () => {
  for (const meta of recorded.block_metas) {
    const header = readHeader(meta.header);
    assert.equal(bytesToHex(headerHash(header)).toUpperCase(), meta.block_id.hash);
    const block = blocks.find((item) => item.block.header.height === header.height)?.block;
    if (block === undefined) continue;
    assert.equal(describeBlock(block).bytes.length.toString(), meta.block_size);
    assert.equal(block.txs.length.toString(), meta.num_txs);
  }
});

test("the results hash of a block with a transaction is in the next recorded header", () => {
  const { block_height: height, txs } = recorded.results;
  const results = txs.map((result) => ({
    code: result.code,
    data: must(base64ToBytes(result.data)),
    gasWanted: BigInt(result.gas_wanted),
    gasUsed: BigInt(result.gas_used),
  }));
  assert.equal(results.length, 1);
  const next = blockAt(BigInt(height) + 1n).block.header;
  assertSame(resultsHash(results), next.lastResultsHash);
  const meta = must(recorded.block_metas.find(({ header }) => header.height === height));
  const data = dataHash(txs.map(({ tx }) => must(base64ToBytes(tx))));
  assert.equal(bytesToHex(data).toUpperCase(), meta.header.data_hash);
});

test("every recorded signature is right, and every block's time is the median of its votes", () => {
  for (const { block } of blocks) {
    const { header, lastCommit } = block;
    if (header.height === 1n) {
      assert.equal(lastCommit.signatures.length, 0);
      continue;
    }
    checkCommitOf(lastCommit);
    assertSame(lastCommit.blockId, header.lastBlockId);
    assert.equal(medianTimeNs(lastCommit, recordedSet(header.height - 1n)), header.timeNs);
  }
  for (const { commit } of recorded.signed_headers) checkCommitOf(readCommit(commit));
});

test("recorded blocks and commits are read back from their bytes, and bytes from what was read", () => {
  for (const { block } of blocks) {
    const { bytes } = describeBlock(block);
    const decoded = decodeBlock(bytes);
    assert.ok(decoded.ok);
    assertSame(decoded.message, block);
    assertSame(describeBlock(decoded.message).bytes, bytes);
    const commit = decodeCommit(encodeCommit(block.lastCommit));
    assert.ok(commit.ok);
    assertSame(commit.message, block.lastCommit);
  }
});

test("JSON of blocks, headers, commits, ids and validators is the recorded text", () => {
  const same = (ours: unknown, theirs: unknown): void => assert.equal(JSON.stringify(ours), JSON.stringify(theirs));
  for (const { block_id: id, block } of recorded.blocks) {
    same(blockIdToRpcJson(readId(id)), id);
    same(blockToRpcJson(readBlock(block)), block);
  }
  for (const { header } of recorded.block_metas) same(headerToRpcJson(readHeader(header)), header);
  for (const header of recorded.headers) same(headerToRpcJson(readHeader(header)), header);
  for (const { header, commit } of recorded.signed_headers) {
    same(headerToRpcJson(readHeader(header)), header);
    same(commitToRpcJson(readCommit(commit)), commit);
  }
  for (const { block_height: height, validators } of recorded.validators) {
    same(recordedSet(BigInt(height)).validators.map(validatorToRpcJson), validators);
  }
});

test("recorded validators are the set that their keys and powers make", () => {
  for (const { block_height: height } of recorded.validators) {
    const set = recordedSet(BigInt(height));
    const made = createValidatorSet(set.validators);
    assert.ok(made.ok);
    assertSame(made.set, set);
    assertSame(validatorKeyAddress(set.proposer.publicKey), blockAt(103n).block.header.proposerAddress);
  }
});

test("recorded light blocks prove themselves, and follow each other", () => {
  for (const json of recorded.signed_headers) {
    const header = readHeader(json.header);
    const light = { header, commit: readCommit(json.commit), validators: recordedSet(header.height) };
    assertSame(verifyLightBlock(chainId, light), { ok: true });
  }
  const lightAt = (height: bigint) => ({
    header: blockAt(height).block.header,
    commit: blockAt(height + 1n).block.lastCommit,
    validators: recordedSet(height),
  });
  for (const height of [1n, 2n, 2229n, 2230n]) {
    assertSame(verifyNextHeader(chainId, lightAt(height), lightAt(height + 1n)), { ok: true });
  }
});

test("recorded blocks are right next blocks, and the first one follows the genesis", () => {
  for (const height of [1n, 2n, 3n, 4n, 2230n, 2231n, 2232n]) {
    const { block } = blockAt(height);
    const { appHash, lastResultsHash, timeNs } = block.header;
    const last = height === 1n ? undefined : blockAt(height - 1n);
    const validators = recordedSet(height);
    const expected = {
      chainId,
      appVersion: 0n,
      initialHeight: 1n,
      genesisTimeNs: timeNs,
      last: last && { id: last.id, height: height - 1n, timeNs: last.block.header.timeNs, validators },
      validators,
      nextValidators: validators,
      consensusHash: block.header.consensusHash,
      appHash,
      lastResultsHash,
    };
    assertSame(verifyNextBlock(block, expected), { ok: true });
  }
});
