/** What one test file gave. */
export interface FileResult {
  /** Path below the root of the repository. */
  readonly file: string;
  seconds: number;
  passed: number;
  /** Names of the tests that failed. */
  readonly failed: string[];
  /** Names of the tests that were skipped. */
  readonly skipped: string[];
}

/** Stands for a test's name where a file failed as a whole. */
export const WHOLE_FILE = "(the file itself)";

/** A result that nothing has been added to. */
export function newFileResult(file: string): FileResult {
  return { file, seconds: 0, passed: 0, failed: [], skipped: [] };
}

/** A test that failed, and passed when its file ran again alone. */
export interface FlakyTest {
  readonly file: string;
  readonly test: string;
}

/** Everything that a run ends with. */
export interface RunReport {
  readonly results: readonly FileResult[];
  readonly flaky: readonly FlakyTest[];
  readonly totalSeconds: number;
}

const SLOWEST = 10;

/** The tests of files that failed first and passed when they ran again. */
export function flakyTests(first: readonly FileResult[], again: readonly FileResult[]): FlakyTest[] {
  const passed = new Set(again.filter(({ failed }) => failed.length === 0).map(({ file }) => file));
  return first.flatMap(({ file, failed }) => (passed.has(file) ? failed.map((test) => ({ file, test })) : []));
}

/** The results of both runs: a file that ran again counts as it did the second time. */
export function mergeResults(first: readonly FileResult[], again: readonly FileResult[]): FileResult[] {
  const second = new Map(again.map((result) => [result.file, result]));
  return first.map((result) => second.get(result.file) ?? result);
}

/** A line for each flaky test, as CI keeps them. */
export function flakyLines(flaky: readonly FlakyTest[]): string[] {
  return flaky.map(({ file, test }) => `FLAKY: ${file} ${test}`);
}

function minutes(seconds: number): string {
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/**
 * What a run prints at its end: the slowest files, flaky tests, skipped tests, the total, and what failed. Its last line
 * is `total: N passed, N failed, N skipped`.
 */
export function reportText({ results, flaky, totalSeconds }: RunReport): string {
  const slowest = [...results].sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST);
  const skipped = results.flatMap(({ file, skipped: names }) => names.map((name) => `  ${file} ${name}`));
  const failed = results.flatMap(({ file, failed: names }) => names.map((name) => `  ${file} ${name}`));
  const passed = results.reduce((sum, result) => sum + result.passed, 0);
  return [
    "",
    slowest.length === SLOWEST ? "The ten slowest files" : "Files by their time",
    ...slowest.map(({ file, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${file}`),
    ...(skipped.length === 0 ? [] : ["", "Skipped", ...skipped]),
    ...(flaky.length === 0 ? [] : ["", "Failed once, passed alone: each is a defect", ...flakyLines(flaky)]),
    ...(failed.length === 0 ? [] : ["", "Failed", ...failed]),
    "",
    `${results.length} files in ${minutes(totalSeconds)}`,
    `total: ${passed} passed, ${failed.length} failed, ${skipped.length} skipped`,
    "",
  ].join("\n");
}
