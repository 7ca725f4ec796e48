import { chmod, readFile } from "node:fs/promises";
import { isRecord, thrownCode, writeAtomically } from "@turnpike/base";

/**
 * Reads a JSON file of secrets, or writes it with what `make` returns when there is none. The file has mode 600.
 * Returns its members unchecked; none when it holds no object. Throws what the file system throws: secrets that cannot
 * be read are never replaced.
 */
export async function readOrMakeSecrets(file: string, make: () => object): Promise<Readonly<Record<string, unknown>>> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (thrownCode(error) !== "ENOENT") throw error;
    text = `${JSON.stringify(make(), undefined, 2)}\n`;
    await writeAtomically(file, text);
  }
  await chmod(file, 0o600);
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}
