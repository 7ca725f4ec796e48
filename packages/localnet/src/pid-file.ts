import { rm } from "node:fs/promises";
import { readPidFile } from "@turnpike/base";
import { endProcess } from "./processes.ts";

/** Ends the process that a pid file names, if it is still there, and removes the file. */
export async function endNamedProcess(
  file: string,
  signal: NodeJS.Signals,
  timeoutMs: number,
): Promise<"none" | "ended"> {
  const found = await readPidFile(file);
  if (found !== undefined) await endProcess(found.pid, signal, timeoutMs);
  await rm(file, { force: true });
  return found === undefined ? "none" : "ended";
}
