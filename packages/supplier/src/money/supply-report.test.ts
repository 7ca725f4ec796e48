import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { virtualClock } from "@turnpike/testkit";
import { OPERATOR, openTestStore, scratchFolder, testHeader } from "../../test/sessions.ts";
import type { RelayStore } from "../evidence/relay-store.ts";
import { bigintJson } from "../evidence/session-json.ts";
import type { SessionOutcome, SessionState } from "../evidence/types.ts";
import { readSupplyReport, supplyReport } from "./supply-report.ts";

async function serve(store: RelayStore, sessionId: string, relays: number): Promise<void> {
  const header = testHeader(sessionId);
  for (let i = 0; i < relays; i++) {
    const relay = Buffer.from(`${sessionId} ${i}`);
    assert.equal(await store.append({ operatorAddress: OPERATOR, header, relay }), "mined");
  }
}

async function end(store: RelayStore, sessionId: string, change: Partial<SessionState>): Promise<void> {
  const session = store.session(OPERATOR, sessionId) ?? assert.fail();
  await session.seal();
  await session.update(change);
}

const paid = (settledUpokt: bigint): SessionOutcome => ({
  kind: "settled",
  heightBlocks: 22n,
  settledUpokt,
  claimedUpokt: settledUpokt,
  rewards: { owner: 5_000n, operator: 880n },
});
const missing: SessionOutcome = { kind: "lost", heightBlocks: 22n, why: "proof-missing", text: "", penaltyUpokt: 7n };
const late: SessionOutcome = {
  kind: "lost",
  heightBlocks: 15n,
  why: "claim-window-missed",
  text: "",
  penaltyUpokt: 0n,
};

/** Sessions that are open, settled for less than they were worth, and lost for two reasons. */
async function fill(store: RelayStore, finishedAtMs: number): Promise<void> {
  await serve(store, "open", 4);
  await serve(store, "open", 1);
  await serve(store, "paid", 2);
  await end(store, "paid", {
    phase: "settled",
    outcome: paid(8_000n),
    claimedHeightBlocks: 9n,
    provenHeightBlocks: 16n,
    feesUpokt: 2n,
    finishedAtMs,
  });
  await serve(store, "unproven", 3);
  await end(store, "unproven", {
    phase: "lost",
    outcome: missing,
    claimedHeightBlocks: 9n,
    feesUpokt: 1n,
    finishedAtMs,
  });
  await serve(store, "late", 1);
  await end(store, "late", { phase: "lost", outcome: late, finishedAtMs });
}

const SUMS = {
  sessions: 4,
  relays: { served: 11n, belowDifficulty: 0n, repeated: 1n, mined: 10n, claimed: 5n, proven: 2n, settled: 2n },
  upokt: { expected: 6n * 4_200n, settled: 8_000n, received: 5_880n, fees: 3n, penalties: 7n },
  lost: {
    "proof-missing": { sessions: 1, relays: 3n, expectedUpokt: 12_600n },
    "claim-window-missed": { sessions: 1, relays: 1n, expectedUpokt: 4_200n },
  },
};

suite("the report of a supplier's money", () => {
  test("says for each service and session what was served, claimed, proven, paid and lost, and why", async () => {
    await using scratch = await scratchFolder();
    await using store = await openTestStore(scratch.folder);
    await fill(store, 1);
    const report = supplyReport(store, [OPERATOR]);
    const [operator] = report.operators;
    assert.deepEqual(operator?.all, SUMS);
    assert.deepEqual(operator?.services, { eth: SUMS });
    const shown = operator?.sessions.map(({ sessionId, phase, expectedUpokt }) => [sessionId, phase, expectedUpokt]);
    assert.deepEqual(shown, [
      ["late", "lost", 4_200n],
      ["open", "open", undefined],
      ["paid", "settled", 8_400n],
      ["unproven", "lost", 12_600n],
    ]);
    assert.match(bigintJson(report), /"settledUpokt":"8000"/);
  });

  test("is the same from the folder, while a supplier runs on it", async () => {
    await using scratch = await scratchFolder();
    await using store = await openTestStore(scratch.folder);
    await fill(store, 1);
    assert.deepEqual(await readSupplyReport(scratch.folder), supplyReport(store, [OPERATOR]));
    assert.deepEqual(await readSupplyReport(join(scratch.folder, "none")), { operators: [] });
  });

  test("keeps the sums of sessions that are removed, also over a crash while they are", async () => {
    await using scratch = await scratchFolder();
    const clock = virtualClock(1_000_000);
    const options = { keepSessionsMs: 1_000 };
    const before = await mkdtemp(join(tmpdir(), "turnpike-before-"));
    const sessions = async () =>
      (await readdir(join(scratch.folder, OPERATOR))).filter((name) => /^\d/.test(name)).length;
    {
      await using store = await openTestStore(scratch.folder, options, { clock });
      await fill(store, clock.nowMs());
      await cp(join(scratch.folder, OPERATOR), before, { recursive: true });
      clock.advance(1_000);
      await store.prune(OPERATOR);
      assert.equal(await sessions(), 1);
      assert.deepEqual(supplyReport(store, [OPERATOR]).operators[0]?.all, SUMS);
      assert.deepEqual(await readSupplyReport(scratch.folder), supplyReport(store, [OPERATOR]));
    }
    // As if the process had died between the sums and the removal.
    for (const name of await readdir(before)) {
      if (/^\d/.test(name)) await cp(join(before, name), join(scratch.folder, OPERATOR, name), { recursive: true });
    }
    await rm(before, { recursive: true });
    assert.deepEqual((await readSupplyReport(scratch.folder)).operators[0]?.all, SUMS);
    await using again = await openTestStore(scratch.folder, options, { clock });
    await again.loaded();
    assert.deepEqual(supplyReport(again, [OPERATOR]).operators[0]?.all, SUMS);
    assert.equal(await sessions(), 1);
    const open = again.session(OPERATOR, "open") ?? assert.fail();
    await open.seal();
    await open.update({ phase: "settled", outcome: paid(1n), claimedHeightBlocks: 9n, finishedAtMs: clock.nowMs() });
    clock.advance(1_000);
    await again.prune(OPERATOR);
    const all = supplyReport(again, [OPERATOR]).operators[0]?.all;
    assert.deepEqual([all?.sessions, all?.relays.served, all?.upokt.settled], [4, 11n, 8_001n]);
  });
});
