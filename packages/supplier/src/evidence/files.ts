import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { isRecord } from "@turnpike/base";

/** True when an error says that a file is not there. Any other error says nothing of what is in it. */
export function isAbsent(cause: unknown): boolean {
  return isRecord(cause) && cause["code"] === "ENOENT";
}

/** Writes a file's changed names down: of a folder. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Writes a small file so that a crash leaves either the old one or the new one. `isSynced`: a loss of power, too, and the new
 * one from then on.
 */
export async function writeSafely(file: string, text: string, isSynced = true): Promise<void> {
  const draft = `${file}.tmp`;
  const handle = await open(draft, "w", 0o600);
  try {
    await handle.writeFile(text);
    if (isSynced) await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  if (isSynced) await syncFolder(dirname(file));
}
