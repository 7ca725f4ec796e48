import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder for everything that a run writes. */
export interface RunFolder extends Disposable {
  readonly path: string;
}

/** Ids of the processes that name a text in their command line. */
export function processesNaming(text: string): number[] {
  const { stdout } = spawnSync("ps", ["-Ao", "pid=,args="], { encoding: "utf8", maxBuffer: 64 * 1_048_576 });
  return (stdout ?? "")
    .split("\n")
    .filter((line) => line.includes(text))
    .map((line) => Number.parseInt(line, 10))
    .filter((pid) => pid > 1 && pid !== process.pid);
}

/**
 * Makes a folder that takes the place of the system's for temporary files, in this process and its children. Disposing of
 * it ends the servers that were started on it and left behind, as by a test file that was interrupted, and removes it.
 */
export function makeRunFolder(): RunFolder {
  // A short name: sockets below it have paths of a hundred characters at most.
  const path = mkdtempSync(join(tmpdir(), "tt-"));
  // PostgreSQL runs as another user where root starts it, and must be able to enter.
  chmodSync(path, 0o711);
  process.env.TMPDIR = path;
  return {
    path,
    [Symbol.dispose]() {
      for (const pid of processesNaming(path)) {
        try {
          process.kill(pid, "SIGKILL");
        } catch {
          // It has ended meanwhile.
        }
      }
      rmSync(path, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
