import { readdirSync, readFileSync } from "node:fs";
import { AppError } from "@turnpike/base";

/** Clock ticks of a second in `/proc`; the same on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return undefined;
  }
}

/**
 * CPU time of all threads of another process, user and system, in microseconds; its steps are 10 ms. Linux only.
 * @throws AppError INTERNAL when there is no such process, or no `/proc`
 */
export function processCpuMicros(pid: number): number {
  const stat = readProc(`/proc/${pid}/stat`);
  // The name before it may hold spaces and brackets.
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields?.[11]) + Number(fields?.[12]);
  if (!Number.isFinite(ticks)) throw new AppError("INTERNAL", { message: `The CPU time of ${pid} cannot be read.` });
  return (ticks / TICKS_PER_SECOND) * 1e6;
}

/** CPU time of this process's threads by their names, in microseconds; empty where there is no `/proc`. */
export function threadsCpuMicros(): Readonly<Record<string, number>> {
  const found: Record<string, number> = {};
  const folder = "/proc/self/task";
  let ids: readonly string[] = [];
  try {
    ids = readdirSync(folder);
  } catch {
    return found;
  }
  for (const id of ids) {
    const name = readProc(`${folder}/${id}/comm`)?.trim();
    const nanos = Number(readProc(`${folder}/${id}/schedstat`)?.split(" ")[0]);
    if (name !== undefined && Number.isFinite(nanos)) found[name] = (found[name] ?? 0) + nanos / 1_000;
  }
  return found;
}

/** Resident bytes of a process; NaN where there is no `/proc`. */
export function processRssBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readProc(`/proc/${pid}/status`) ?? "")?.[1];
  return Number(kilobytes) * 1_024;
}

/** Ids of a process and of all that descend from it; of it alone where there is no `/proc`. */
export function processTree(pid: number): readonly number[] {
  const children = readProc(`/proc/${pid}/task/${pid}/children`)?.trim().split(" ") ?? [];
  return [pid, ...children.filter((id) => id !== "").flatMap((id) => processTree(Number(id)))];
}

/** Resident bytes of a process, of which what it shares is divided by those who share it; NaN where there is no `/proc`. */
export function processPssBytes(pid: number): number {
  const kilobytes = /^Pss:\s+(\d+) kB/m.exec(readProc(`/proc/${pid}/smaps_rollup`) ?? "")?.[1];
  return Number(kilobytes) * 1_024;
}

/** Most files that a process of ours may have open; a careful 1,024 where that cannot be read. */
export function openFilesLimit(): number {
  // Node raises its own limit to the hard one, which is the second figure.
  const limit = /^Max open files\s+\d+\s+(\d+)/m.exec(readProc("/proc/self/limits") ?? "")?.[1];
  return limit === undefined ? 1_024 : Number(limit);
}
