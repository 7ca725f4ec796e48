import { relative } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { ROOT } from "../sources.ts";
import { type FileResult, newFileResult, WHOLE_FILE } from "./report.ts";

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
    readonly file?: string;
    readonly skip?: string | boolean;
    readonly todo?: string | boolean;
    readonly duration_ms?: number;
    readonly details?: {
      readonly duration_ms?: number;
      readonly type?: string;
      readonly error?: { readonly failureType?: string };
    };
  };
}

/** True for an event that ends a piece of what a file's process reported: its summary, or a word on the file as a whole. */
function isEndOfFile({ type, data }: TestEvent): boolean {
  return type === "test:summary" || data.name === data.file;
}

const isSet = (mark: string | boolean | undefined): boolean => mark !== undefined && mark !== false;

function record(result: FileResult, { type, data }: TestEvent): void {
  const name = data.name ?? "";
  const isFailure = type === "test:fail";
  if (type === "test:summary") {
    result.seconds = Math.max(result.seconds, (data.duration_ms ?? 0) / 1_000);
  } else if (name === data.file) {
    // The process failed as a whole: with its hooks, after its tests, or before them. One that passes has no tests.
    if (isFailure) result.failed.push(WHOLE_FILE);
    result.seconds = Math.max(result.seconds, (data.details?.duration_ms ?? 0) / 1_000);
  } else if (isSet(data.skip) || isSet(data.todo)) {
    result.skipped.push(name);
  } else if (isFailure) {
    // A suite that fails by itself does so by its hooks, or its time.
    if (data.details?.error?.failureType !== "subtestsFailed") result.failed.push(name);
  } else if (data.details?.type !== "suite") {
    result.passed++;
  }
}

/**
 * Makes results of the runner's events, one a file. An event names the file in which its test is written, which may be
 * one that several test files share; the runner reports a file's events in one piece, and its end last. A file that fails
 * as a whole may have two ends.
 */
export function createRecorder(): {
  readonly results: ReadonlyMap<string, FileResult>;
  readonly add: (event: TestEvent) => void;
} {
  const results = new Map<string, FileResult>();
  let pending: TestEvent[] = [];
  return {
    results,
    add(event) {
      if (event.type !== "test:summary" && event.type !== "test:pass" && event.type !== "test:fail") return;
      if (event.data.file === undefined) return;
      pending.push(event);
      if (!isEndOfFile(event)) return;
      const file = relative(ROOT, event.data.file);
      const result = results.get(file) ?? newFileResult(file);
      results.set(file, result);
      for (const one of pending) record(result, one);
      pending = [];
    },
  };
}

/** Runs test files, each in a process of its own, and prints each test as it ends. Resolves with what each file gave. */
export async function runFiles(options: RunFilesOptions): Promise<FileResult[]> {
  const { results, add } = createRecorder();
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
    const open = options.files.filter((path) => !results.has(path));
    process.stderr.write(
      `Nothing was reported for ${options.stallTimeoutMs / 60_000} minutes. Not ended: ${open.join(", ")}\n`,
    );
    stall.abort();
  };
  const timer = setTimeout(onStall, options.stallTimeoutMs);
  events.on("data", (event: TestEvent) => {
    timer.refresh();
    add(event);
  });
  const printed = events.compose(spec);
  printed.pipe(process.stdout, { end: false });
  await new Promise((resolve, reject) => printed.once("end", resolve).once("error", reject));
  clearTimeout(timer);
  const ended = [...results.values()];
  return stall.signal.aborted ? [...ended, { ...newFileResult("(stalled)"), failed: ["the run stood still"] }] : ended;
}
