import { chmod, readFile } from "node:fs/promises";
import { AppError, isRecord, thrownCode, writeAtomically } from "@turnpike/base";

/**
 * Reads a JSON file of secrets, or writes it with what `make` returns when there is none. The file has mode 600.
 * Returns its members unchecked; none when it holds no object.
 * @throws AppError DATA_FOLDER when the file is there and cannot be read: it is never replaced.
 */
export async function readOrMakeSecrets(file: string, make: () => object): Promise<Readonly<Record<string, unknown>>> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    const code = thrownCode(error);
    if (code !== "ENOENT") {
      throw new AppError("DATA_FOLDER", {
        message: `${file} cannot be read (${code ?? "unknown"}), and is not replaced: keys may be in it.`,
        advice: "Make it a file that this user may read and write.",
      });
    }
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
