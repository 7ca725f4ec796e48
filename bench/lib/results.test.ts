import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import type { Machine } from "./machine.ts";
import type { Report, Row } from "./report.ts";
import {
  changesOf,
  changesText,
  findResult,
  readResult,
  resultFile,
  resultOf,
  resultText,
  saveResult,
} from "./results.ts";

const MACHINE: Machine = {
  date: "2026-11-26T12:00:00.000Z",
  cores: 2,
  cpu: "of a test",
  memoryGiB: 24,
  platform: "linux x64",
  node: "v26.10.0",
  versions: { undici: "7.30.2" },
};
const COMMIT = "0123456789abcdef0123456789abcdef01234567";

function row(name: string, ours: number, unit: string, more: Partial<Row> = {}): Row {
  const reference = { value: 10, unit };
  return { name, title: name, ours: { value: ours, unit }, reference, ratioOf: "ours / reference", ...more };
}

function resultWith(rows: readonly Row[], quick = false, machine = MACHINE) {
  const report: Report = { rows, notes: ["one"], tables: [{ title: "t", head: ["a"], lines: [["1"]] }] };
  return resultOf({ benchmark: "relay", commit: COMMIT, quick, machine }, report);
}

test("a result's text is read as what it was, with the ratio that was taken or that of its figures", () => {
  const result = resultWith([row("a", 20, "µs"), row("b", 20, "µs", { ratio: 1.5, aim: { op: "<=", value: 2 } })]);
  assert.deepEqual(
    result.rows.map(({ ratio }) => ratio),
    [2, 1.5],
  );
  assert.deepEqual(readResult(resultText(result), "x.json"), result);
  assert.deepEqual(Object.keys(result), [
    "format",
    "benchmark",
    "commit",
    "quick",
    "machine",
    "rows",
    "tables",
    "notes",
  ]);
  assert.equal(resultText(result).endsWith("}\n"), true);
});

test("what is no result, or one of another format, is refused by name", () => {
  const good = JSON.parse(resultText(resultWith([row("a", 20, "µs")]))) as Record<string, unknown>;
  const bad = [
    "",
    "[]",
    "null",
    JSON.stringify({ ...good, rows: [{ name: "a" }] }),
    JSON.stringify({ ...good, rows: undefined }),
    JSON.stringify({ ...good, rows: [null] }),
  ];
  const refused = (wanted: RegExp) => (error: unknown) => isAppError(error, "USAGE") && wanted.test(error.message);
  for (const text of bad) assert.throws(() => readResult(text, "x.json"), refused(/^x\.json is no result/));
  const other = JSON.stringify({ ...good, format: 2 });
  assert.throws(() => readResult(other, "x.json"), refused(/^x\.json has format 2, not 1/));
});

test("a change is better or worse by the row's aim, else by its unit and which way round its ratio is", () => {
  const way = { ratioOf: "reference / ours" } as const;
  const cases: readonly [before: Row, after: Row, verdict: string][] = [
    [row("cpu", 20, "µs"), row("cpu", 24, "µs"), "worse"],
    [row("cpu", 20, "µs"), row("cpu", 16, "µs"), "better"],
    [row("cpu", 20, "µs"), row("cpu", 20.9, "µs"), "same"],
    [row("cpu", 20, "µs"), row("cpu", 19.1, "µs"), "same"],
    [row("rate", 20, "/s"), row("rate", 24, "/s"), "better"],
    [row("rate", 20, "/s of one core"), row("rate", 16, "/s of one core"), "worse"],
    [row("quality", 20, "of 1"), row("quality", 16, "of 1"), "worse"],
    [row("swapped", 20, "ms", way), row("swapped", 16, "ms", way), "better"],
    [row("swapped", 20, "/s", way), row("swapped", 16, "/s", way), "worse"],
    [
      row("aim", 20, "gas", { ...way, aim: { op: "<=", value: 1 } }),
      row("aim", 16, "gas", { ...way, aim: { op: "<=", value: 1 } }),
      "worse",
    ],
  ];
  for (const [before, after, verdict] of cases) {
    const [change] = changesOf(resultWith([before]), resultWith([after]));
    assert.equal(change?.verdict, verdict, `${before.name} ${before.ours.value} ${after.ours.value}`);
  }
});

test("a ratio that became 0, was 0 or crossed it is judged by its way, without a factor", () => {
  const cases: readonly [before: Row, after: Row, verdict: string][] = [
    [row("cpu", 20, "µs"), row("cpu", 0, "µs"), "better"],
    [row("cpu", 0, "µs"), row("cpu", 20, "µs"), "worse"],
    [row("cpu", 0, "µs"), row("cpu", 0, "µs"), "same"],
    [row("rate", 20, "/s"), row("rate", 0, "/s"), "worse"],
    [row("rate", 0, "/s"), row("rate", 20, "/s"), "better"],
    [row("beyond", 5, "ms"), row("beyond", -5, "ms"), "better"],
    [row("beyond", -5, "ms"), row("beyond", 5, "ms"), "worse"],
  ];
  for (const [before, after, verdict] of cases) {
    const [change] = changesOf(resultWith([before]), resultWith([after]));
    const name = `${before.name} ${before.ours.value} ${after.ours.value}`;
    assert.equal(change?.verdict, verdict, name);
    assert.equal(change?.factor, undefined, name);
  }
  const [lower] = changesOf(resultWith([row("beyond", -5, "ms")]), resultWith([row("beyond", -6, "ms")]));
  assert.equal(lower?.verdict, "better");
});

test("rows that came and went are named; without a number nothing is judged", () => {
  const before = resultWith([row("gone", 10, "µs"), row("kept", 10, "µs"), row("none", Number.NaN, "µs")]);
  const after = resultWith([row("kept", 15, "µs"), row("new", 30, "µs"), row("none", 20, "µs")]);
  const read = readResult(resultText(before), "x.json");
  assert.equal(
    changesText(read, after),
    [
      `against ${COMMIT} of ${MACHINE.date}`,
      "kept 1.00 -> 1.50 (x1.50, worse)",
      "new – -> 3.00 (new)",
      "none – -> 2.00 (same)",
      "gone 1.00 -> – (gone)",
      "",
    ].join("\n"),
  );
});

test("a comparison with a quick run, another machine or another node says so", () => {
  const other = { ...MACHINE, cpu: "another", cores: 8, node: "v27.0.0" };
  const text = changesText(resultWith([], true, other), resultWith([]));
  assert.match(text, /^note {2}a quick run/m);
  assert.match(text, /^note {2}other machines: 8 cores \(another\) before$/m);
  assert.match(text, /^note {2}another node before: v27\.0\.0$/m);
  assert.doesNotMatch(changesText(resultWith([]), resultWith([])), /^note/m);
});

test("a result is kept by its commit and benchmark, and found by the commit or the file", async () => {
  const folder = await mkdtemp(join(tmpdir(), "bench-results-"));
  try {
    const result = resultWith([row("a", 20, "µs")]);
    const path = await saveResult(folder, result);
    assert.equal(path, join(folder, "0123456789ab.relay.json"));
    assert.deepEqual(await findResult(COMMIT, folder, "relay"), result);
    assert.deepEqual(await findResult(path, "nowhere", "relay"), result);
    await assert.rejects(findResult(path, folder, "db"), /is of relay, not of db/);
    await assert.rejects(
      findResult("no-such-commit", folder, "relay"),
      /There is no result of relay for no-such-commit/,
    );
    await writeFile(join(folder, "bad.json"), "{}");
    await assert.rejects(findResult(join(folder, "bad.json"), folder, "relay"), /bad\.json is no result/);
  } finally {
    await rm(folder, { recursive: true });
  }
  assert.equal(resultFile({ benchmark: "db", commit: `${COMMIT}-changed` }), "0123456789ab-changed.db.json");
  assert.equal(resultFile({ benchmark: "db", commit: "unknown" }), "unknown.db.json");
});
