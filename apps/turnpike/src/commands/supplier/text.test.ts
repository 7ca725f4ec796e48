import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { statusLines } from "./text.ts";

const sums = (served: string, settled: string) => ({
  sessions: 3,
  relays: { served, belowDifficulty: "0", repeated: "2", mined: served, claimed: served, proven: settled, settled },
  upokt: { expected: "5040000", settled: "4200000", received: "2940000", fees: "12", penalties: "1000000" },
  lost: { "proof-missing": { sessions: 1, relays: "200", expectedUpokt: "840000" } },
});

const session = (at: number, phase: string) => ({
  sessionId: `${at}`.padStart(64, "a"),
  serviceId: "eth",
  startHeightBlocks: `${at * 20 + 1}`,
  endHeightBlocks: `${at * 20 + 20}`,
  phase,
  relays: { served: 7, mined: 6, belowDifficulty: 1, repeated: 0 },
  ...(phase === "open" ? {} : { expectedUpokt: "25200" }),
  ...(phase === "settled" ? { outcome: { kind: "settled" } } : {}),
});

suite("the status of a supplier for people", () => {
  test("has a line for each service of an operator, and one for each session that is not settled", () => {
    const report = {
      operators: [
        {
          operatorAddress: "pokt1first",
          all: sums("1200", "1000"),
          services: { eth: sums("1100", "1000"), "document-digest": { ...sums("100", "0"), lost: {} } },
          sessions: [session(2, "open"), session(1, "claimed"), session(0, "settled")],
        },
        { operatorAddress: "pokt1second", all: sums("1", "1"), services: { eth: sums("1", "1") }, sessions: [] },
      ],
    };
    assert.deepEqual(statusLines(report), [
      "pokt1first",
      "SERVICE          SERVED  MINED  CLAIMED  PROVEN  SETTLED   EXPECTED    CHARGED   RECEIVED  LOST",
      "eth               1,100  1,100    1,100   1,000    1,000  5,040,000  4,200,000  2,940,000  200 relays (proof-missing)",
      "document-digest     100    100      100       0        0  5,040,000  4,200,000  2,940,000  -",
      "all               1,200  1,200    1,200   1,000    1,000  5,040,000  4,200,000  2,940,000  200 relays (proof-missing)",
      "fees 12 upokt, penalties 1,000,000 upokt, 2 relays repeated",
      "SESSION       SERVICE  BLOCKS  PHASE    SERVED  MINED  EXPECTED",
      "aaaaaaaaaaaa  eth      41-60   open          7      6  -",
      "aaaaaaaaaaaa  eth      21-40   claimed       7      6  25,200",
      "",
      "pokt1second",
      "SERVICE  SERVED  MINED  CLAIMED  PROVEN  SETTLED   EXPECTED    CHARGED   RECEIVED  LOST",
      "eth           1      1        1       1        1  5,040,000  4,200,000  2,940,000  200 relays (proof-missing)",
      "fees 12 upokt, penalties 1,000,000 upokt, 2 relays repeated",
      "no session is open",
    ]);
  });

  test("is short however many sessions there are, and whatever a report lacks", () => {
    const sessions = Array.from({ length: 100 }, (_, at) => session(at, "open"));
    const lines = statusLines({ operators: [{ operatorAddress: "pokt1a", sessions }] });
    assert.equal(lines.length, 26);
    assert.equal(lines.at(-1), "and 80 more sessions: see --json");
    assert.deepEqual(statusLines({ operators: [] }), ["No relay was served yet."]);
    assert.deepEqual(statusLines({}), ["No relay was served yet."]);
  });
});
