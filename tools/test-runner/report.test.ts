import assert from "node:assert/strict";
import { join } from "node:path";
import { suite, test } from "node:test";
import { ROOT } from "../sources.ts";
import { type FileResult, flakyLines, flakyTests, mergeResults, newFileResult, reportText } from "./report.ts";
import { createRecorder } from "./run-files.ts";

const result = (file: string, change: Partial<FileResult> = {}): FileResult => ({
  ...newFileResult(file),
  passed: 1,
  ...change,
});

type Recorder = ReturnType<typeof createRecorder>;

suite("the report of a test run", () => {
  test("names the ten slowest files, the total, and ends with the counts", () => {
    const results = Array.from({ length: 12 }, (_, at) => result(`f${at}`, { seconds: at }));
    const lines = reportText({ results, flaky: [], totalSeconds: 61.2 }).trimEnd().split("\n");
    assert.equal(lines[1], "The ten slowest files");
    assert.equal(lines[2], "   11.0 s  f11");
    assert.equal(lines[11], "    2.0 s  f2");
    assert.deepEqual(lines.slice(-2), ["12 files in 1 min 01 s", "total: 12 passed, 0 failed, 0 skipped"]);
  });

  test("a test that passed the second time is flaky, and counts as passed; one that failed twice has failed", () => {
    const first = [result("a", { failed: ["x", "y"] }), result("b", { failed: ["z"] }), result("c")];
    const again = [result("a", { passed: 3 }), result("b", { failed: ["z"] })];
    const flaky = flakyTests(first, again);
    assert.deepEqual(flakyLines(flaky), ["FLAKY: a x", "FLAKY: a y"]);
    const text = reportText({ results: mergeResults(first, again), flaky, totalSeconds: 1 });
    assert.match(text, /each is a defect\nFLAKY: a x\nFLAKY: a y\n/);
    assert.match(text, /Failed\n {2}b z\n/);
    assert.match(text, /total: 5 passed, 1 failed, 0 skipped\n$/);
  });

  const error = (failureType: string) => ({ duration_ms: 1, error: { failureType } });
  const recorded = (events: readonly (readonly [string, Parameters<Recorder["add"]>[0]["data"]])[]): FileResult[] => {
    const { results, add } = createRecorder();
    for (const [type, data] of events) add({ type, data });
    return [...results.values()];
  };

  test("is made of the runner's events: those of a shared source count for the file that ran them", () => {
    const shared = join(ROOT, "shared.ts");
    const file = join(ROOT, "x.test.ts");
    const early = join(ROOT, "y.test.ts");
    const empty = join(ROOT, "z.test.ts");
    const results = recorded([
      ["test:pass", { file: shared, name: "good", details: { type: "test" } }],
      ["test:pass", { file, name: "left out", skip: "why", details: { type: "test" } }],
      ["test:pass", { file, name: "suite that is left out", skip: "why", details: { type: "suite" } }],
      ["test:fail", { file, name: "to be done", todo: true, details: { type: "test", ...error("testCodeFailure") } }],
      ["test:fail", { file, name: "bad", details: { type: "test", ...error("testCodeFailure") } }],
      ["test:fail", { file, name: "parent", details: { type: "test", ...error("subtestsFailed") } }],
      ["test:fail", { file, name: "suite", details: { type: "suite", ...error("subtestsFailed") } }],
      ["test:fail", { file, name: "its hook", details: { type: "suite", ...error("hookFailed") } }],
      ["test:summary", { file, duration_ms: 1500 }],
      ["test:fail", { file: early, name: early, details: { type: "test", duration_ms: 250 } }],
      ["test:pass", { file: empty, name: empty, details: { type: "test", duration_ms: 5 } }],
      ["test:summary", { duration_ms: 9 }],
    ]);
    assert.deepEqual(results, [
      {
        file: "x.test.ts",
        seconds: 1.5,
        passed: 1,
        failed: ["bad", "its hook"],
        skipped: ["left out", "suite that is left out", "to be done"],
      },
      { file: "y.test.ts", seconds: 0.25, passed: 0, failed: ["(the file itself)"], skipped: [] },
      { file: "z.test.ts", seconds: 0.005, passed: 0, failed: [], skipped: [] },
    ]);
  });

  test("a file that fails as a whole beside its summary has one result, and fails twice as well as once", () => {
    const file = join(ROOT, "x.test.ts");
    const whole = ["test:fail", { file, name: file, details: { type: "test", ...error("testCodeFailure") } }] as const;
    const summary = ["test:summary", { file, duration_ms: 10 }] as const;
    for (const events of [
      [whole, summary],
      [summary, whole],
    ]) {
      const first = recorded(events);
      assert.equal(first.length, 1);
      assert.deepEqual(first[0]?.failed, ["(the file itself)"]);
      assert.deepEqual(flakyTests(first, recorded(events)), []);
      assert.deepEqual(mergeResults(first, recorded(events))[0]?.failed, ["(the file itself)"]);
    }
  });
});
