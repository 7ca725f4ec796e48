import { relative } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { ROOT } from "../sources.ts";
import { type FileResult, newFileResult } from "./report.ts";

/** Options of {@link runFiles}. */
export interface RunFilesOptions {
  /** Paths below the root of the repository, in the order in which they begin. */
  readonly files: readonly string[];
  /** Files at once. */
  readonly concurrency: number;
  /** Time for one test, in milliseconds, unless it has its own. A suite's bounds the suite, and is not passed on to its tests. */
  readonly testTimeoutMs: number;
  /** The run ends as failed when nothing is reported for so long, in milliseconds. */
  readonly stallTimeoutMs: number;
  /** Added to the environment of each file's process. */
  readonly env: Readonly<Record<string, string>>;
  /** More arguments for Node, such as `--test-name-pattern=…`. */
  readonly nodeArguments: readonly string[];
  readonly signal: AbortSignal;
}

interface TestEvent {
  readonly type: string;
  readonly data: {
    readonly name?: string;
    readonly nesting?: number;
    readonly file?: string;
    readonly skip?: string | boolean;
    readonly duration_ms?: number;
    readonly details?: {
      readonly duration_ms?: number;
      readonly type?: string;
      readonly error?: { readonly failureType?: string };
    };
    readonly counts?: Readonly<Record<string, number>>;
  };
}

/** Adds what one event of the runner says to the results of its file. */
export function recordEvent(results: Map<string, FileResult>, { type, data }: TestEvent): void {
  if (data.file === undefined) return;
  const file = relative(ROOT, data.file);
  const result = results.get(file) ?? newFileResult(file);
  results.set(file, result);
  if (type === "test:summary") {
    result.seconds = (data.duration_ms ?? 0) / 1_000;
    result.hasEnded = true;
    return;
  }
  if (type !== "test:pass" && type !== "test:fail") return;
  if (data.details?.type === "suite") {
    // A suite that failed by itself, not by one of its tests: its hooks, or its time.
    const isOwn = type === "test:fail" && data.details.error?.failureType !== "subtestsFailed";
    if (isOwn) result.failed.push(data.name ?? "");
    return;
  }
  const isFailure = type === "test:fail";
  if (isFailure && data.details?.error?.failureType === "subtestsFailed") return;
  if (isFailure) result.failed.push(data.name === data.file ? "(the file itself)" : (data.name ?? ""));
  else if (data.skip !== undefined && data.skip !== false) result.skipped.push(data.name ?? "");
  else result.passed++;
  // A file whose process ended early has no summary.
  if (data.name === data.file) result.seconds = (data.details?.duration_ms ?? 0) / 1_000;
}

/** Runs test files, each in a process of its own, and prints each test as it ends. Resolves with what each file gave. */
export async function runFiles(options: RunFilesOptions): Promise<FileResult[]> {
  const results = new Map<string, FileResult>();
  const stall = new AbortController();
  const events = run({
    files: options.files.map((path) => `${ROOT}/${path}`),
    cwd: ROOT,
    concurrency: options.concurrency,
    timeout: options.testTimeoutMs,
    execArgv: ["--disable-warning=ExperimentalWarning", ...options.nodeArguments],
    env: { ...process.env, ...options.env },
    signal: AbortSignal.any([options.signal, stall.signal]),
  });
  const onStall = (): void => {
    const open = options.files.filter((path) => results.get(path)?.hasEnded !== true);
    process.stderr.write(
      `Nothing was reported for ${options.stallTimeoutMs / 60_000} minutes. Not ended: ${open.join(", ")}\n`,
    );
    stall.abort();
  };
  const timer = setTimeout(onStall, options.stallTimeoutMs);
  events.on("data", (event: TestEvent) => {
    timer.refresh();
    recordEvent(results, event);
  });
  const printed = events.compose(spec);
  printed.pipe(process.stdout, { end: false });
  await new Promise((resolve, reject) => printed.once("end", resolve).once("error", reject));
  clearTimeout(timer);
  if (stall.signal.aborted)
    results.set("(stalled)", { ...newFileResult("(stalled)"), failed: ["the run stood still"] });
  return [...results.values()];
}
