import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { commandLineOf, thrownCode } from "@turnpike/base";

/**
 * True when process `pid` runs `program` (the last part of its path) with `mark` among its arguments. A pid that was
 * written down by a program that has died may by now be another program's.
 */
export async function isProgram(pid: number, program: string, mark: string): Promise<boolean> {
  const args = await commandLineOf(pid);
  if (args === undefined) return false;
  const first = args[0]?.split("/").at(-1)?.replace(/:$/, "");
  return first === program && (args.includes(mark) || args.join(" ").includes(mark));
}

/** Waits until a process is gone; false when it is still there after `timeoutMs`. */
async function waitForExit(pid: number, timeoutMs: number): Promise<boolean> {
  const until = performance.now() + timeoutMs;
  while ((await commandLineOf(pid)) !== undefined) {
    if (performance.now() > until) return false;
    await delay(20);
  }
  return true;
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (thrownCode(error) !== "ESRCH") throw error;
  }
}

/** Asks a process to end, and ends it by force when it has not done so after `timeoutMs`. */
export async function endProcess(pid: number, signal: NodeJS.Signals, timeoutMs: number): Promise<void> {
  signalTo(pid, signal);
  if (await waitForExit(pid, timeoutMs)) return;
  signalTo(pid, "SIGKILL");
  await waitForExit(pid, timeoutMs);
}

/** How a child ended. */
export interface ChildExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Resolves when the child has ended, also when it has already, or could not be started. */
export function childExit(child: ChildProcess): Promise<ChildExit> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) {
      resolve({ code: child.exitCode, signal: child.signalCode });
      return;
    }
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", () => {
      if (child.pid === undefined) resolve({ code: null, signal: null });
    });
  });
}

/** Ends a child: `signal` first, SIGKILL after `timeoutMs`. Resolves when it is gone. */
export async function endChild(child: ChildProcess, signal: NodeJS.Signals, timeoutMs: number): Promise<ChildExit> {
  const ended = childExit(child);
  child.kill(signal);
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  try {
    return await ended;
  } finally {
    clearTimeout(timer);
  }
}

/** Ends the child when this process exits in any way that it can notice. Returns what takes the promise back. */
export function endWithParent(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): () => void {
  const end = (): void => {
    child.kill(signal);
  };
  process.once("exit", end);
  const release = (): void => {
    process.removeListener("exit", end);
  };
  child.once("exit", release);
  return release;
}
