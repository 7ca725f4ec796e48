import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { readChain, stateBefore } from "./modules/tokenomics/recorded.ts";
import { IN_SESSIONS, machine, runInSession, stateFor } from "./recorded-runs.ts";
import { IN_BLOCKS, REFUSED } from "./recorded-states.ts";
import { assertAsRecorded, assertRefusedAsRecorded, runRecorded } from "./recorded-tx.ts";

const RECORDED = new URL("../../../test/spec/recorded-chain/", import.meta.url);
const SOURCES = new URL("../src/", import.meta.url);

const REFUSED_IN_SESSIONS = ["fail-claim-empty-root", "fail-proof-empty"];

/** Replayed where more is needed than the transaction's own state: the test that names it. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  // The recording holds no hash of the block that these sessions' ids are made of.
  "fail-claim-session-id": "modules/proof/recorded-txs.test.ts",
  "fail-claim-wrong-heights": "modules/proof/recorded-txs.test.ts",
  "fail-proof-no-claim": "modules/proof/recorded-txs.test.ts",
  // Refused here, where nothing can be undelegated.
  "staking-delegate": "modules/staking/staking.test.ts",
};

/** Messages of modules that this chain does not have. */
const NOT_BUILT = new Set(["gov-submit-proposal", "gov-vote"]);

/** Replayed by tests of their own, below. */
const ALONE = ["claim-fabricated-over-1-update", "fail-duplicate-in-cache"];

suite("every recorded transaction on the whole machine", () => {
  test("none of the recording is left out, and none is named that it has not", () => {
    const files = readdirSync(new URL("txs/", RECORDED))
      .filter((name) => name.endsWith(".json") && name !== "index.json")
      .map((name) => name.slice(0, -".json".length));
    const index = JSON.parse(readFileSync(new URL("txs/index.json", RECORDED), "utf8")) as { name: string }[];
    assert.deepEqual(files.sort(), index.map(({ name }) => name).sort());
    const named = [
      ...Object.keys(IN_BLOCKS),
      ...Object.keys(REFUSED),
      ...Object.keys(IN_SESSIONS),
      ...REFUSED_IN_SESSIONS,
      ...Object.keys(ELSEWHERE),
      ...NOT_BUILT,
      ...ALONE,
    ];
    assert.deepEqual(named.sort(), files);
    for (const [name, file] of Object.entries(ELSEWHERE)) {
      assert.ok(readFileSync(new URL(file, SOURCES), "utf8").includes(name), `${file} replays ${name}`);
    }
  });

  for (const [name, given] of Object.entries(IN_BLOCKS)) {
    test(`${name}: in a block`, () => {
      const tx = readRecordedTx(name);
      assert.equal(runRecorded(machine, stateFor(tx, given), tx, "check").code, 0);
      assertAsRecorded(runRecorded(machine, stateFor(tx, given), tx, "deliver"), tx);
    });
  }

  for (const [name, given] of Object.entries(REFUSED)) {
    test(`${name}: by the mempool`, () => {
      const tx = readRecordedTx(name);
      const result = runRecorded(machine, stateFor(tx, given), tx, "check");
      assertRefusedAsRecorded(result, tx);
      assert.deepEqual(result.events, []);
    });
  }

  for (const [name, session] of Object.entries(IN_SESSIONS)) {
    test(`${name}: in the recorded session ${session}`, () => {
      const tx = readRecordedTx(name);
      assertAsRecorded(runInSession(stateBefore(readChain(session)), tx, "deliver"), tx);
    });
  }

  for (const name of REFUSED_IN_SESSIONS) {
    test(`${name}: by the mempool`, () => {
      const tx = readRecordedTx(name);
      assertRefusedAsRecorded(runInSession(stateBefore(readChain("e2e-1")), tx, "check"), tx);
    });
  }

  test("claim-fabricated-over-1-update: after the claim that it replaces", () => {
    const state = stateBefore(readChain("e2e-4"));
    for (const name of ["claim-fabricated-over-1", "claim-fabricated-over-1-update"]) {
      const tx = readRecordedTx(name);
      assertAsRecorded(runInSession(state, tx, "deliver"), tx);
    }
  });

  test("fail-duplicate-in-cache: is valid, and refused by a mempool that has it already (mempool.test.ts)", () => {
    const { tx_bytes: text } = readRecordedTx("fail-duplicate-in-cache");
    // By the signer of another one, some transactions later.
    const { state, block } = stateFor({ ...readRecordedTx("service-add-new"), sequence: "4" }, {});
    assert.equal(machine.runTx(state, block, "check", Buffer.from(text, "base64")).code, 0);
  });
});
