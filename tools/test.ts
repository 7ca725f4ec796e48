import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { files, ROOT } from "./sources.ts";

/** Where tests are. */
const PATTERNS = ["packages/*/src/**/*.test.ts", "apps/*/src/**/*.test.ts", "tools/**/*.test.ts", "test/**/*.test.ts"];

/** Time for one test, in milliseconds, unless it has its own. A suite's bounds the suite, and is not handed down to its tests. */
const TIMEOUT_MS = 300_000;

/** Test files at once: the machine has two cores, and many tests start a database or a chain of their own. */
const CONCURRENCY = 2;

/** A program that some tests need and that npm cannot bring. */
interface Program {
  readonly name: string;
  /** What is not tested without it. */
  readonly tests: string;
  /** True when it is there. */
  readonly found: () => boolean;
  /** False where it cannot be got, so that a skip is no failure in CI either; left out: it always can. */
  readonly obtainable?: () => boolean;
}

const PROGRAMS: readonly Program[] = [
  {
    name: "redis-server",
    tests: "limits that several gateways share",
    found: () => spawnSync("redis-server", ["--version"]).status === 0,
  },
  {
    name: "nginx",
    tests: "the gateway behind nginx, as docs/operate/proxy.md sets it up",
    // Daemons are not in everybody's PATH.
    found: () => ["nginx", "/usr/sbin/nginx"].some((path) => spawnSync(path, ["-v"]).status === 0),
  },
  {
    name: "cometbft",
    tests: "the chain's application under CometBFT 0.38",
    found: () =>
      spawnSync(process.env.COMETBFT ?? "cometbft", ["version"], { encoding: "utf8" }).stdout?.startsWith("0.38.") ??
      false,
    // It is built from source.
    obtainable: () => spawnSync("go", ["version"]).status === 0,
  },
  {
    name: "ip",
    tests: "four validators, each in a network namespace of its own",
    found: () => ["ip", "/usr/sbin/ip", "/sbin/ip"].some((path) => spawnSync(path, ["-V"]).status === 0),
    // Of iproute2; and only root may make namespaces.
    obtainable: () => process.getuid?.() === 0 && spawnSync("apt-get", ["--version"]).status === 0,
  },
];

function selected(args: readonly string[]): string[] {
  const all = files(...PATTERNS);
  if (args.length === 0) return all;
  return all.filter((path) =>
    args.some((arg) => {
      const wanted = relative(ROOT, resolve(process.cwd(), arg));
      const folder = existsSync(join(ROOT, wanted)) && statSync(join(ROOT, wanted)).isDirectory();
      return folder ? path.startsWith(`${wanted}/`) : path === wanted || path.includes(arg);
    }),
  );
}

const args = process.argv.slice(2);
const flags = args.filter((arg) => arg.startsWith("--"));
const chosen = selected(args.filter((arg) => !arg.startsWith("--")));
if (chosen.length === 0) {
  process.stderr.write(`No test file fits ${args.join(" ")}.\n`);
  process.exit(2);
}

const skipped = PROGRAMS.filter((program) => !program.found());
for (const { name, tests } of skipped) process.stdout.write(`skipped: ${tests} (${name} is not installed)\n`);

const run = spawnSync(
  process.execPath,
  [
    "--test",
    "--test-reporter=spec",
    `--test-concurrency=${CONCURRENCY}`,
    `--test-timeout=${TIMEOUT_MS}`,
    "--disable-warning=ExperimentalWarning",
    ...flags,
    ...chosen,
  ],
  { cwd: ROOT, stdio: "inherit" },
);
const faults = skipped.filter(({ obtainable }) => obtainable?.() !== false);
if (faults.length > 0 && process.env.CI === "true") {
  process.stderr.write(`In CI a skip is a failure: ${faults.map(({ name }) => name).join(", ")}\n`);
  process.exit(1);
}
process.exit(run.status ?? 1);
