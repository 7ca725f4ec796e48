import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Archive, archiveDefaults, historyKindOf, neededHeights } from "./archive.ts";

const TIP = 10_000;
const { maxAgeMs } = archiveDefaults;

suite("archive", () => {
  test("heights that a call needs", () => {
    assert.deepEqual(neededHeights([{ height: 5 }, { tag: "latest" }], TIP), { lowestBlocks: 5, highestBlocks: TIP });
    assert.deepEqual(neededHeights([{ tag: "earliest" }], TIP), { lowestBlocks: 0, highestBlocks: 0 });
    assert.equal(neededHeights([{ hash: "0xab" }], TIP), undefined);
    assert.equal(neededHeights([], TIP), undefined);
  });

  test("an operator that lacks a height lacks what is below, for half an hour", () => {
    const archive = new Archive();
    assert.equal(archive.holding("a", "state", 5_000, 0), "unknown");
    archive.lacked("a", "state", 5_000, TIP, 0);
    assert.equal(archive.mayHave("a", "state", 5_000, 1), false);
    assert.equal(archive.mayHave("a", "state", 10, 1), false);
    assert.equal(archive.mayHave("a", "state", 5_001, 1), true);
    assert.equal(archive.mayHave("b", "state", 10, 1), true);
    assert.equal(archive.mayHave("a", "data", 10, 1), true, "blocks are not state");
    assert.equal(archive.mayHave("a", "state", 5_000, maxAgeMs + 1), true);
  });

  test("the newer word counts", () => {
    const archive = new Archive();
    archive.lacked("a", "state", 5_000, TIP, 0);
    archive.had("a", "state", 3_000, TIP, 1);
    assert.equal(archive.holding("a", "state", 3_000, 2), "has");
    assert.equal(archive.holding("a", "state", 4_000, 2), "has");
    assert.equal(archive.holding("a", "state", 2_999, 2), "lacks");
    archive.lacked("a", "state", 4_000, TIP, 3);
    assert.equal(archive.holding("a", "state", 4_000, 4), "lacks");
    assert.equal(archive.holding("a", "state", 4_001, 4), "has");
  });

  test("heights near the tip, and an unknown tip, say nothing about history", () => {
    const archive = new Archive();
    archive.lacked("a", "state", TIP - 100, TIP, 0);
    archive.lacked("a", "state", 5, undefined, 0);
    archive.had("a", "state", TIP - 1, TIP, 0);
    assert.equal(archive.holding("a", "state", 5, 1), "unknown");
    assert.equal(archive.isOld(TIP - 128, TIP), false);
    assert.equal(archive.isOld(TIP - 129, TIP), true);
  });

  test("which calls read state", () => {
    for (const name of ["eth_call", "eth_getBalance", "debug_traceTransaction", "abci_query", "query"]) {
      assert.equal(historyKindOf(name), "state", name);
    }
    for (const name of ["eth_getLogs", "eth_getBlockByNumber", "block", "GET /cosmos/tx/v1beta1/txs"]) {
      assert.equal(historyKindOf(name), "data", name);
    }
  });

  test("what is remembered is bounded", () => {
    const archive = new Archive();
    for (let at = 0; at < 10_000; at++) archive.lacked(`operator${at}`, "state", 5, TIP, 0);
    assert.equal(archive.mayHave("operator0", "state", 5, 1), true);
    assert.equal(archive.mayHave("operator9999", "state", 5, 1), false);
  });
});
