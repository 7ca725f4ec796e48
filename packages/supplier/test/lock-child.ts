import { writeSync } from "node:fs";
import { isAppError } from "@turnpike/base";
import { openTestStore } from "./sessions.ts";

/** Opens a store, says whether it could, and holds it until the process is killed. */
async function main(folder: string): Promise<void> {
  try {
    await openTestStore(folder, { isMachineWideLock: true });
    writeSync(1, "held\n");
    setInterval(() => {}, 3_600_000);
  } catch (error) {
    writeSync(1, `${isAppError(error) ? `${error.code} ${error.message}` : String(error)}\n`);
  }
}

const [, script, folder] = process.argv;
if (script !== undefined && import.meta.filename === script && folder !== undefined) await main(folder);
