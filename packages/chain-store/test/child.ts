import { hash } from "node:crypto";
import { writeSync } from "node:fs";
import { isAppError } from "@turnpike/base";
import { openChainStore } from "../src/open-chain-store.ts";
import type { StateChange } from "../src/types.ts";
import { blockOf } from "./model.ts";

/** What the child's block of a height changes: the same whenever it is asked. */
export function changesAt(heightBlocks: bigint): StateChange[] {
  const seed = hash("sha256", `block ${heightBlocks}`, "buffer");
  const count = 3 + ((seed[0] ?? 0) >> 3);
  return Array.from({ length: count }, (_, i): StateChange => {
    const at = hash("sha256", `${heightBlocks} ${i}`, "buffer");
    const key = Buffer.from(`key ${(at.readUInt16BE() % 4) * 400 + i}`);
    return [key, at[2] === undefined || at[2] < 60 ? undefined : Buffer.concat([at, at, at]).subarray(0, at[3])];
  });
}

/** States that the child keeps when it prunes. */
export const KEPT_BLOCKS = 15n;

/** Opens the store, commits block after block, and says each step on its output once it is done; `hold` only opens. */
async function main(folder: string, mode: string): Promise<void> {
  const say = (text: string): void => void writeSync(1, `${text}\n`);
  say("begin");
  await using store = await openChainStore({ folder });
  say("open");
  if (mode === "hold") setInterval(() => {}, 1_000);
  if (mode === "hold") await new Promise(() => {});
  for (let height = (store.latestHeightBlocks() ?? -1n) + 1n; ; height++) {
    const record = { table: "blocks", key: Buffer.from(`${height}`), value: Buffer.from(`block ${height}`) };
    const appHash = await store.commit(blockOf(height, changesAt(height), [record]));
    say(`${height} ${Buffer.from(appHash).toString("hex")}`);
    if (mode === "prune" && height > KEPT_BLOCKS) await store.prune(height - KEPT_BLOCKS);
  }
}

const [, script, folder, mode] = process.argv;
if (script !== undefined && import.meta.filename === script && folder !== undefined && mode !== undefined) {
  await main(folder, mode).catch((error: unknown) => {
    writeSync(1, `failed ${isAppError(error) ? error.code : String(error)}\n`);
    process.exit(1);
  });
}
