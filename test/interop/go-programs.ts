import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { AppError } from "@turnpike/base";

const FOLDER = fileURLToPath(new URL("./go", import.meta.url));
const BUILD_TIMEOUT_MS = 240_000;
const RUN_TIMEOUT_MS = 120_000;

function reasonToSkip(): string | false {
  const found = spawnSync("go", ["version"], { encoding: "utf8" });
  const version = /go1\.(\d+)/.exec(found.stdout ?? "")?.[1];
  if (found.status !== 0 || version === undefined) return "go is not installed";
  return Number(version) < 24 ? "go is older than 1.24" : false;
}

/** What a test gives as `skip`: a reason, or false when the toolchain is there. */
export const withoutGo: string | false = reasonToSkip();

/** True when a C compiler is there, which the second curve library of ring-go needs. */
export const hasC: boolean = spawnSync("cc", ["--version"]).status === 0;

/** A built program, and its removal. */
export interface GoProgram extends Disposable {
  /** Gives it one JSON document and reads its answer. */
  ask<T>(question: unknown): Promise<T>;
}

/**
 * Builds one program of `test/interop/go`. The first build fetches the modules that `go.sum` pins.
 * @throws AppError DEPENDENCY_MISSING with what the toolchain said
 */
export function buildGo(
  name: "ring" | "relay" | "trie" | "light",
  opts: { readonly tags?: string; readonly cgo?: boolean } = {},
): GoProgram {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-go-"));
  const program = join(folder, name);
  const tags = opts.tags === undefined ? [] : ["-tags", opts.tags];
  // A module of its own: what it needs is large, and of no use to the others.
  const [cwd, target] = name === "light" ? [join(FOLDER, name), "."] : [FOLDER, `./${name}`];
  const built = spawnSync("go", ["build", "-mod=readonly", ...tags, "-o", program, target], {
    cwd,
    encoding: "utf8",
    timeout: BUILD_TIMEOUT_MS,
    env: { ...process.env, CGO_ENABLED: opts.cgo === true ? "1" : "0", GOTOOLCHAIN: "local" },
  });
  if (built.status !== 0) {
    rmSync(folder, { recursive: true, force: true });
    throw new AppError("DEPENDENCY_MISSING", { message: `go build: ${built.error?.message ?? built.stderr}` });
  }
  return {
    async ask<T>(question: unknown): Promise<T> {
      const child = spawn(program, { stdio: ["pipe", "pipe", "pipe"], timeout: RUN_TIMEOUT_MS });
      const exit = once(child, "exit");
      child.stdin.end(JSON.stringify(question));
      const [out, problems] = await Promise.all([text(child.stdout), text(child.stderr)]);
      const [code] = (await exit) as [number | null];
      if (code !== 0) throw new AppError("INTERNAL", { message: `${name}: ${problems.slice(0, 500)}` });
      return JSON.parse(out) as T;
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}
