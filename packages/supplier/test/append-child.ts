import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { OPERATOR, openTestStore, testHeader } from "./sessions.ts";

/** Serves relay after relay, some at once, and says the number of each whose answer may leave. */
async function main(folder: string, first: number): Promise<void> {
  const store = await openTestStore(folder);
  let next = first;
  const serve = async (): Promise<void> => {
    for (;;) {
      const number = next++;
      const relay = Buffer.alloc(700, createHash("sha256").update(String(number)).digest());
      const result = await store.append({ operatorAddress: OPERATOR, header: testHeader(), relay });
      writeSync(1, `${number} ${result}\n`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, serve));
}

const [, script, folder, first] = process.argv;
if (script !== undefined && import.meta.filename === script && folder !== undefined) await main(folder, Number(first));
