import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@turnpike/base";

/** The repository. */
export const ROOT = join(import.meta.dirname, "../..");

/** How a script ended. */
export interface ScriptRun {
  readonly code: unknown;
  readonly out: string;
  readonly err: string;
}

/** A folder in which a page's script runs as a reader of the page runs it. It is removed at the end. */
export interface ScriptFolder extends Disposable {
  /** Puts the script there, and what `npm start` would say of a gateway and its buyer. */
  place(name: string, script: string, up: { readonly gateway: string; readonly privateKey: string }): void;
  /** Runs a script with nothing in its environment. */
  run(name: string): Promise<ScriptRun>;
}

/** The text of a page of the repository. */
export function pageText(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The script that a page shows in a block of its own, which begins with `// <name>`. */
export function pageScript(page: string, name: string): string {
  const [, script] = new RegExp(`\`\`\`js\\n(// ${name.replaceAll(".", "\\.")}\\n.*?)\`\`\``, "s").exec(page) ?? [];
  if (script === undefined) throw new AppError("INTERNAL", { message: `the page has no ${name}` });
  return script;
}

/** Makes a {@link ScriptFolder}. */
export function scriptFolder(): ScriptFolder {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-page-"));
  mkdirSync(join(folder, ".turnpike"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return {
    place(name, script, { gateway, privateKey }) {
      writeFileSync(join(folder, ".turnpike/up.json"), JSON.stringify({ gateway, buyer: { privateKey } }));
      writeFileSync(join(folder, name), script);
    },
    run: (name) =>
      new Promise((resolve) => {
        execFile(process.execPath, [name], { cwd: folder, env: {}, timeout: 30_000 }, (error, out, err) => {
          resolve({ code: error?.code ?? 0, out, err });
        });
      }),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}
