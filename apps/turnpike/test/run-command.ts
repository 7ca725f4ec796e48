import { AsyncLocalStorage } from "node:async_hooks";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { AppError } from "@turnpike/base";
import { runCommandLine } from "../src/main.ts";

/** State of the commands that are given no folder of their own for it: none is left in the user's. */
const stateFolder = mkdtempSync(join(tmpdir(), "turnpike-command-state-"));
process.once("exit", () => rmSync(stateFolder, { recursive: true, force: true }));
const environment = (env: Record<string, string>): Record<string, string> => ({ XDG_STATE_HOME: stateFolder, ...env });

/** Where the command is. */
export const COMMAND_FILE = join(import.meta.dirname, "../bin/turnpike.js");

/** What a command wrote, and its exit code. */
export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

interface Written {
  out: string;
  err: string;
}

// Commands that run at the same time are kept apart by what called them.
const writing = new AsyncLocalStorage<Written>();

for (const [stream, name] of [
  [process.stdout, "out"],
  [process.stderr, "err"],
] as const) {
  // Also where a test file is run at a terminal.
  stream.isTTY = false;
  const write = stream.write.bind(stream);
  stream.write = ((chunk: unknown, ...rest: never[]) => {
    const written = writing.getStore();
    // Bytes are the test runner's own reports.
    if (written === undefined || typeof chunk !== "string") return write(chunk as string, ...rest);
    written[name] += chunk;
    const callback: unknown = rest.at(-1);
    if (typeof callback === "function") queueMicrotask(() => void callback());
    return true;
  }) as typeof write;
}

/**
 * Runs a command as its process would, but in this one: with nothing in its environment but what is given, and a state folder.
 * Relative paths are this process's: see process.chdir.
 */
export async function runInProcess(args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
  const written: Written = { out: "", err: "" };
  let code = 0;
  const context = {
    env: environment(env),
    exitWith: (given: number) => {
      code = given;
    },
    kill: (): never => {
      throw new AppError("INTERNAL", { message: `${args.join(" ")} ended the process` });
    },
  };
  await writing.run(written, () => runCommandLine(args, context));
  return { code, ...written };
}

/** Runs a command as a user does: in a process of its own, with nothing in its environment but what is given, and a state folder. */
export async function runSpawned(
  args: readonly string[],
  { cwd, env = {} }: { readonly cwd: string; readonly env?: Record<string, string> },
): Promise<Ran> {
  const child = spawn(process.execPath, [COMMAND_FILE, ...args], {
    cwd,
    env: environment(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [[code], out, err] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
  return { code: code as number | null, out, err };
}
