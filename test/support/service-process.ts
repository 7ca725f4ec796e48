import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { AppError, isRecord } from "@turnpike/base";
import { endWithParent } from "@turnpike/localnet";
import { killProgram } from "@turnpike/testkit";

const COMMAND = fileURLToPath(new URL("../../apps/turnpike/bin/turnpike.js", import.meta.url));

/** `turnpike gateway` or `turnpike facilitator` as an operator starts it. */
export interface ServiceProcess extends AsyncDisposable {
  readonly url: string;
  readonly metricsUrl: string;
  /** Lines of its log of level warn and above, and how often each came. */
  readonly warnings: ReadonlyMap<string, number>;
  /** True while it runs. */
  readonly lives: boolean;
}

/** Starts a service with this configuration, and waits until it listens. */
export async function startServiceProcess(
  role: "gateway" | "facilitator",
  config: Readonly<Record<string, unknown>>,
): Promise<ServiceProcess> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-service-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "turnpike.yaml");
  await writeFile(file, JSON.stringify(config), { mode: 0o600 });
  const child: ChildProcess = spawn(process.execPath, [COMMAND, role, "--json", "--config", file], {
    stdio: ["ignore", "pipe", "pipe"],
    // Nothing else of this machine's settings; compiled sources save each process seconds.
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE },
  });
  const release = endWithParent(child);
  stack.defer(async () => {
    await killProgram(child);
    release();
  });
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new TypeError("no output");
  const warnings = new Map<string, number>();
  createInterface({ input: stderr }).on("line", (line) => {
    const text = warningOf(line);
    if (text !== undefined) warnings.set(text, (warnings.get(text) ?? 0) + 1);
  });
  const exited = once(child, "exit");
  const [line] = (await Promise.race([once(createInterface({ input: stdout }), "line"), exited])) as [unknown];
  const said: unknown = typeof line === "string" ? JSON.parse(line) : undefined;
  if (!isRecord(said) || said.ready !== true) {
    const message = `turnpike ${role} did not start: ${String(line)} ${[...warnings.keys()].join("; ")}`;
    throw new AppError("INTERNAL", { message });
  }
  stdout.resume();
  const owned = stack.move();
  return {
    url: String(said[role]),
    metricsUrl: String(said.metrics),
    warnings,
    get lives() {
      return child.exitCode === null && child.signalCode === null;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What a line of the log warns of; a line that is none is one, too. */
function warningOf(line: string): string | undefined {
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    return line;
  }
  if (!isRecord(record)) return line;
  const { level, msg, code, answer } = record;
  if (level !== "warn" && level !== "error" && level !== "fatal") return undefined;
  const cause = [code, answer].filter((part) => typeof part === "string").join(", ");
  return `${level}: ${String(msg)}${cause === "" ? "" : ` (${cause})`}`;
}
