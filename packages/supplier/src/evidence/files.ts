import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes a file's changed names down: of a folder. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes a small file so that a crash, or a loss of power, leaves either the old one or the new one. */
export async function writeSafely(file: string, text: string): Promise<void> {
  const draft = `${file}.tmp`;
  const handle = await open(draft, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  await syncFolder(dirname(file));
}
