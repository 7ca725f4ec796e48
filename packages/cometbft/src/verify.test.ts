import assert from "node:assert/strict";
import { test } from "node:test";
import { CHAIN_ID, commitOf, expectationAfter, lightOf, nextBlock, testValidators } from "@turnpike/testkit/cometbft";
import { must } from "@turnpike/testkit/fixtures";
import { buildBlock, describeBlock } from "./block.ts";
import type { Block, Header } from "./types.ts";
import { verifyLightBlock, verifyNextBlock, verifyNextHeader } from "./verify.ts";

const validators = testValidators([5n, 4n, 3n]);
const first = nextBlock(validators, undefined);
const firstCommit = commitOf(validators, first);
const second = nextBlock(validators, { built: first, commit: firstCommit }, [Uint8Array.of(1)]);
const secondCommit = commitOf(validators, second);
const light1 = lightOf(validators, first, firstCommit);
const light2 = lightOf(validators, second, secondCommit);
const otherHash = new Uint8Array(32).fill(9);

const faultOf = (verdict: { readonly ok: boolean; readonly fault?: string }): string => verdict.fault ?? "ok";
const judge = (block: Block): string => faultOf(verifyNextBlock(block, expectationAfter(validators, first)));
const bent = (change: Partial<Header>): Block => ({ ...second.block, header: { ...second.block.header, ...change } });

test("our own blocks are right next blocks and light blocks", () => {
  assert.equal(faultOf(verifyNextBlock(first.block, expectationAfter(validators, undefined))), "ok");
  assert.equal(judge(second.block), "ok");
  assert.equal(faultOf(verifyLightBlock(CHAIN_ID, light2)), "ok");
  assert.equal(faultOf(verifyNextHeader(CHAIN_ID, light1, light2)), "ok");
});

test("no member of a header can be changed under a commit", () => {
  const { header } = second.block;
  const changes: Partial<Header>[] = [
    { version: { block: 11n, app: 1n } },
    { height: 3n },
    { timeNs: header.timeNs + 1n },
    { lastBlockId: second.id },
    { lastCommitHash: otherHash },
    { dataHash: otherHash },
    { validatorsHash: otherHash },
    { nextValidatorsHash: otherHash },
    { consensusHash: otherHash },
    { appHash: otherHash },
    { lastResultsHash: otherHash },
    { evidenceHash: otherHash },
    { proposerAddress: new Uint8Array(20) },
  ];
  for (const change of changes) {
    const light = { ...light2, header: { ...header, ...change } };
    assert.equal(faultOf(verifyLightBlock(CHAIN_ID, light)), "the commit is of another block");
    assert.notEqual(judge(bent(change)), "ok", Object.keys(change).join());
  }
  assert.equal(faultOf(verifyLightBlock("another", light2)), "another chain's header");
});

test("a header of another chain, signed with the same keys, is refused", () => {
  const light = { ...light2, header: { ...second.block.header, chainId: "another" } };
  assert.equal(faultOf(verifyLightBlock(CHAIN_ID, light)), "another chain's header");
  assert.equal(judge(bent({ chainId: "another" })), "another chain's block");
});

test("strangers' keys, or the right keys with other powers, do not make a light block", () => {
  const strangers = testValidators([5n, 4n, 3n, 1n]);
  const commit = commitOf(strangers, second);
  const stranger = { header: second.block.header, commit, validators: strangers.set };
  assert.equal(faultOf(verifyLightBlock(CHAIN_ID, stranger)), "another validator set");
  // A chain of their own proves itself, but does not follow the trusted one.
  const own = nextBlock(strangers, { built: first, commit: firstCommit });
  const light = lightOf(strangers, own, commitOf(strangers, own));
  assert.equal(faultOf(verifyLightBlock(CHAIN_ID, light)), "ok");
  assert.equal(faultOf(verifyNextHeader(CHAIN_ID, light1, light)), "an unexpected validator set");
});

test("a light block with too few votes, or that does not follow, is refused", () => {
  const few = lightOf(validators, second, commitOf(validators, second, ["commit", "nil", "commit"]));
  assert.equal(faultOf(verifyLightBlock(CHAIN_ID, few)), "commit: too_little_power");
  assert.equal(faultOf(verifyNextHeader(CHAIN_ID, light2, light2)), "not the next height");
  const fork = describeBlock({ ...first.block, header: { ...first.block.header, appHash: otherHash } });
  const forked = lightOf(validators, fork, commitOf(validators, fork));
  assert.equal(faultOf(verifyNextHeader(CHAIN_ID, forked, light2)), "follows another block");
});

test("a block with a time that its votes do not give is refused", () => {
  assert.equal(judge(bent({ timeNs: second.block.header.timeNs + 1n })), "not the median time of the votes");
  assert.equal(judge(bent({ timeNs: first.block.header.timeNs })), "the time does not rise");
  const early = { ...first.block, header: { ...first.block.header, timeNs: 1n } };
  assert.equal(
    faultOf(verifyNextBlock(early, expectationAfter(validators, undefined))),
    "wrong time of the first block",
  );
});

test("a signed header whose time does not rise does not follow", () => {
  const built = describeBlock(bent({ timeNs: first.block.header.timeNs }));
  const light = lightOf(validators, built, commitOf(validators, built));
  assert.equal(faultOf(verifyLightBlock(CHAIN_ID, light)), "ok");
  assert.equal(faultOf(verifyNextHeader(CHAIN_ID, light1, light)), "the time does not rise");
});

test("a first block with a commit is refused", () => {
  const { header } = first.block;
  const { block } = buildBlock({ header, txs: [], lastCommit: firstCommit });
  assert.equal(
    faultOf(verifyNextBlock(block, expectationAfter(validators, undefined))),
    "the first block has a commit",
  );
});

test("a block with a forged last commit, an unknown proposer or a wrong place is refused", () => {
  const forged = commitOf(validators, first, ["nil"]);
  const block = nextBlock(validators, { built: first, commit: forged }).block;
  assert.equal(judge(block), "last commit: too_little_power");
  assert.equal(judge(bent({ proposerAddress: new Uint8Array(20) })), "unknown proposer");
  assert.equal(judge(bent({ height: 7n })), "wrong height");
  assert.equal(judge(bent({ lastBlockId: second.id })), "follows another block");
  assert.equal(judge(must(first).block), "wrong height");
  assert.equal(faultOf(verifyNextBlock(second.block, expectationAfter(validators, undefined))), "wrong height");
});
