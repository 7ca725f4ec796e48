import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { type ChaosPart, type ChaosReport, figureText } from "./chaos.ts";

/** Longest time of a part's short form within `npm run test:all`, in milliseconds. A test needs it itself: its suite's is not handed down. */
export const SHORT_TIMEOUT_MS = 600_000;

/** Runs a part's short form in a test, and prints what it found out and what it left out. */
export async function runShort(part: ChaosPart, t: TestContext): Promise<ChaosReport> {
  const report = await part({ size: "short", progress: (text) => t.diagnostic(text) });
  for (const figure of report.figures) t.diagnostic(figureText(figure));
  for (const text of report.skipped ?? []) t.diagnostic(`skipped: ${text}`);
  assert.deepEqual(report.faults ?? [], []);
  return report;
}
