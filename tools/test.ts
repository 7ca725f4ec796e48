import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startSharedServers } from "@turnpike/testkit/servers";
import { ROOT } from "./sources.ts";
import { missingPrograms } from "./test-runner/programs.ts";
import { flakyLines, flakyTests, mergeResults, reportText, WHOLE_FILE } from "./test-runner/report.ts";
import { type RunFilesOptions, runFiles } from "./test-runner/run-files.ts";
import { makeRunFolder } from "./test-runner/run-folder.ts";
import { filesNamed, filesOf, isTiming, mayRunAgain, type Tier } from "./test-runner/tiers.ts";

const HELP = `Runs tests, each file in a process of its own, on one PostgreSQL server and one local EVM chain.

  npm test                     the quick tier: what every change must pass, and nothing is run twice
  npm test -- <path> …         the files below these folders, or whose path has this text in it, of any tier
  npm run test:all             everything; a file that fails runs once more, alone (not those of money)

  --tier <name>                quick, all, or beyond-quick: what all adds to quick
  --concurrency <n>            files at once
  --name <text>                only tests whose name has this text in it, or fits /this/: name their file, too
  --node=<argument>            another argument for Node, as --node=--inspect-brk; may be repeated
  --list                       names the files, and runs none
  --help                       this text

A run in which nothing ends for a quarter of an hour names the files that are left, and fails: a test that leaves a
server open keeps its process. What failed once and passed alone is printed as FLAKY, and appended to test-results/flaky.txt.
`;

/** Files at once: two cores, and most tests wait for a server at times. */
const CONCURRENCY = 3;
const TEST_TIMEOUT_MS = 300_000;
const STALL_TIMEOUT_MS = 900_000;
const TIERS: readonly string[] = ["quick", "all", "beyond-quick"] satisfies readonly Tier[];

function usageError(message: string): never {
  process.stderr.write(`${message}\n\n${HELP}`);
  process.exit(2);
}

function isTier(text: string): text is Tier {
  return TIERS.includes(text);
}

/** Where all processes of tests keep compiled sources. Filled once before the run, as killed processes write nothing. */
async function warmCompileCache(): Promise<Readonly<Record<string, string>>> {
  if (process.env.NODE_COMPILE_CACHE !== undefined || process.env.NODE_DISABLE_COMPILE_CACHE !== undefined) return {};
  const { cacheFolderIn } = (await import(join(ROOT, "apps/turnpike/bin/compile-cache.js"))) as {
    readonly cacheFolderIn: (modulesFolder: string) => string | undefined;
  };
  const folder = cacheFolderIn(join(ROOT, "node_modules"));
  if (folder === undefined) return {};
  const env = { NODE_COMPILE_CACHE: folder };
  if (readdirSync(folder).length === 0) {
    const sources = [
      "tools/sources.ts",
      "packages/testkit/src/index.ts",
      "packages/testkit/src/chain.ts",
      "apps/turnpike/src/wiring/gateway.ts",
    ];
    const imports = sources.map((path) => `await import(${JSON.stringify(join(ROOT, path))});`);
    spawnSync(process.execPath, ["--input-type=module", "--eval", imports.join("")], {
      env: { ...process.env, ...env },
      stdio: "ignore",
    });
  }
  return env;
}

/** What Node takes as a pattern: a text is one as well, in which each character stands for itself. */
function patternOf(name: string): string {
  return /^\/.*\/[a-z]*$/.test(name) ? name : name.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        tier: { type: "string", default: "quick" },
        concurrency: { type: "string", default: String(CONCURRENCY) },
        name: { type: "string" },
        node: { type: "string", multiple: true, default: [] },
        list: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    return usageError(error instanceof Error ? error.message : String(error));
  }
}

const { values, positionals } = readArguments();
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const { tier } = values;
if (!isTier(tier)) usageError(`--tier ${tier} is none of ${TIERS.join(", ")}.`);
const concurrency = Number(values.concurrency);
if (!Number.isSafeInteger(concurrency) || concurrency < 1) usageError("--concurrency is a whole number from 1 on.");
const chosen = positionals.length === 0 ? filesOf(tier) : filesNamed(positionals);
if (chosen.length === 0) usageError(`No test file fits ${positionals.join(" ")}.`);
if (values.list) {
  process.stdout.write(`${chosen.join("\n")}\n`);
  process.exit(0);
}

const isQuick = tier === "quick" && positionals.length === 0;
// Nothing of the quick tier needs a program that npm does not bring.
const missing = isQuick ? [] : missingPrograms();
for (const { name, tests } of missing) process.stdout.write(`skipped: ${tests} (${name} is not installed)\n`);

const interrupt = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => interrupt.abort());

const began = performance.now();
using _folder = makeRunFolder();
await using servers = await startSharedServers();
for (const fault of servers.faults) process.stderr.write(`${fault}\n`);
const common: Omit<RunFilesOptions, "files" | "concurrency"> = {
  testTimeoutMs: TEST_TIMEOUT_MS,
  stallTimeoutMs: STALL_TIMEOUT_MS,
  env: { ...(await warmCompileCache()), ...servers.env },
  nodeArguments: [
    ...(values.name === undefined ? [] : [`--test-name-pattern=${patternOf(values.name)}`]),
    ...values.node,
  ],
  signal: interrupt.signal,
};
const runAll = async (files: readonly string[], at: number): ReturnType<typeof runFiles> =>
  files.length === 0 ? [] : runFiles({ ...common, files, concurrency: at });

const together = chosen.filter((path) => !isTiming(path));
const first = [...(await runAll(together, concurrency)), ...(await runAll(chosen.filter(isTiming), 1))];
const failed = first.filter((result) => result.failed.length > 0).map(({ file }) => file);
const isRepeated = positionals.length === 0 && !interrupt.signal.aborted;
const repeated = isRepeated ? failed.filter(mayRunAgain) : [];
if (repeated.length > 0) process.stdout.write(`\nOnce more, alone: ${repeated.join(", ")}\n`);
const again = await runAll(repeated, 1);

const results = mergeResults(first, again);
const flaky = flakyTests(first, again);
if (flaky.length > 0) {
  mkdirSync(join(ROOT, "test-results"), { recursive: true });
  appendFileSync(
    join(ROOT, "test-results", "flaky.txt"),
    `# ${new Date().toISOString()}\n${flakyLines(flaky).join("\n")}\n`,
  );
}
const isInterrupted = interrupt.signal.aborted;
// Files that were cut off did not fail.
const ended = isInterrupted ? results.filter(({ failed: names }) => !names.includes(WHOLE_FILE)) : results;
process.stdout.write(reportText({ results: ended, flaky, totalSeconds: (performance.now() - began) / 1_000 }));

const faults = missing.filter(({ isObtainable }) => isObtainable?.() !== false);
const isSkipFault = faults.length > 0 && process.env.CI === "true";
if (isSkipFault) process.stderr.write(`In CI a skip is a failure: ${faults.map(({ name }) => name).join(", ")}\n`);
const unended = chosen.filter((path) => !ended.some(({ file }) => file === path));
if (unended.length > 0) process.stderr.write(`Ended before ${unended.length} of ${chosen.length} files had run.\n`);
const isNoTest = values.name !== undefined && ended.every(({ passed, failed: names }) => passed + names.length === 0);
if (isNoTest) process.stderr.write(`No test has a name that fits ${values.name}.\n`);
const isFailure = isSkipFault || isNoTest || unended.length > 0 || ended.some(({ failed: names }) => names.length > 0);
const INTERRUPTED = 130;
process.exitCode = isInterrupted ? INTERRUPTED : Number(isFailure);
