import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { isRecord } from "./json.ts";

const run = promisify(execFile);

/** True when a process has this id; it may be anybody's. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isRecord(error) && error.code === "EPERM";
  }
}

/** The command line of a process as its arguments; undefined when there is no such process, or it has ended. */
export async function commandLineOf(pid: number): Promise<readonly string[] | undefined> {
  if (!isAlive(pid)) return undefined;
  if (process.platform === "linux") {
    try {
      // an ended process that was not waited for has an empty command line
      const text = await readFile(`/proc/${pid}/cmdline`, "utf8");
      return text === "" ? undefined : text.replace(/\0$/, "").split("\0");
    } catch {
      return undefined;
    }
  }
  try {
    const { stdout } = await run("ps", ["-o", "command=", "-p", String(pid)]);
    return stdout.trim() === "" ? undefined : stdout.trim().split(" ");
  } catch {
    return undefined;
  }
}

/** A process as a pid file names it. */
export interface ProcessName {
  readonly pid: number;
  /** When it started: two processes may have one pid, but not the same start. */
  readonly started: string;
}

/** When a process started, as the system reports it; undefined when there is none. */
export async function startOf(pid: number): Promise<string | undefined> {
  if ((await commandLineOf(pid)) === undefined) return undefined;
  if (process.platform === "linux") {
    try {
      const [boot, text] = await Promise.all([
        readFile("/proc/sys/kernel/random/boot_id", "utf8"),
        readFile(`/proc/${pid}/stat`, "utf8"),
      ]);
      // proc(5): field 22 is the start time; the second field is the name, which may hold spaces
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      return `${boot.trim()}:${fields[19]}`;
    } catch {
      return undefined;
    }
  }
  try {
    const { stdout } = await run("ps", ["-o", "lstart=", "-p", String(pid)]);
    return stdout.trim() === "" ? undefined : stdout.trim();
  } catch {
    return undefined;
  }
}

/** Writes a running process down. */
export async function writePidFile(file: string, pid: number, flag: "w" | "wx" = "w"): Promise<void> {
  await writeFile(file, `${JSON.stringify({ pid, started: (await startOf(pid)) ?? "" })}\n`, { mode: 0o600, flag });
}

/** The process that a pid file names, if it is still that process; another one with its pid does not count. */
export async function readPidFile(file: string): Promise<ProcessName | undefined> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, "utf8"));
  } catch {
    return undefined;
  }
  if (!isRecord(value) || typeof value.pid !== "number" || !Number.isSafeInteger(value.pid) || value.pid < 2) {
    return undefined;
  }
  const { pid, started } = value;
  return typeof started === "string" && (await startOf(pid)) === started ? { pid, started } : undefined;
}
