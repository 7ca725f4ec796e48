import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes bytes so that a crash leaves either the old file or the new one. */
export async function writeAtomically(file: string, bytes: Uint8Array | string, mode = 0o600): Promise<void> {
  const draft = `${file}.${process.pid}.tmp`;
  const handle = await open(draft, "w", mode);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  const folder = await open(dirname(file), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
