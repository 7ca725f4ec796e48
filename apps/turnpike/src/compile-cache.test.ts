import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, suite, test } from "node:test";
import { pathToFileURL } from "node:url";
import { eventually } from "@turnpike/testkit";
import { COMMAND_FILE } from "../test/run-command.ts";

// Plain JavaScript without declarations.
const { cacheFolderIn } = (await import(String(new URL("../bin/compile-cache.js", import.meta.url)))) as {
  readonly cacheFolderIn: (modulesFolder: string) => string | undefined;
};

const folder = mkdtempSync(join(tmpdir(), "turnpike-compile-cache-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const newFolder = (): string => mkdtempSync(join(folder, "f-"));
const filesIn = (cache: string): readonly string[] =>
  existsSync(cache)
    ? readdirSync(cache, { recursive: true, encoding: "utf8" }).filter((name) => !/^v[^/]*$/.test(name))
    : [];

/** What Node reports of its cache while the command prints its version. */
async function traceOf(env: Record<string, string>): Promise<string> {
  const child = spawn(process.execPath, [COMMAND_FILE, "--version"], {
    cwd: folder,
    env: { ...env, NODE_DEBUG_NATIVE: "COMPILE_CACHE" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [[code], out, err] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
  assert.equal(code, 0, err);
  // To which of the two outputs Node writes it is not ours to know.
  return out + err;
}

const MAIN = String(pathToFileURL(join(import.meta.dirname, "main.ts")));
const readsMain = (trace: string): boolean => trace.includes(`code cache for ESM ${MAIN} was accepted`);

suite("the cache of compiled sources", () => {
  test("the first start fills the folder, and the second reads it", async () => {
    const cache = newFolder();
    assert.equal(readsMain(await traceOf({ NODE_COMPILE_CACHE: cache })), false);
    assert.ok(filesIn(cache).length > 50, "sources with all that they import");
    assert.equal(readsMain(await traceOf({ NODE_COMPILE_CACHE: cache })), true);
  });

  test("without a variable it lies in node_modules, and NODE_DISABLE_COMPILE_CACHE keeps it off", async () => {
    const own = cacheFolderIn(join(import.meta.dirname, "../../../node_modules"));
    await traceOf({});
    const again = await traceOf({});
    // Undefined where the repository is another user's.
    assert.equal(readsMain(again), own !== undefined);
    assert.equal(again.includes(`reading cache from ${own}`), own !== undefined);
    assert.equal(await traceOf({ NODE_DISABLE_COMPILE_CACHE: "1" }).then(readsMain), false);
  });

  test("a service writes it when it is ready: one that is killed has written it", async () => {
    const cache = newFolder();
    const source = `
      import { serve } from ${JSON.stringify(String(new URL("./cli/lifecycle.ts", import.meta.url)))};
      setInterval(() => {}, 1_000);
      await serve({ kill() {} }, { log: {} }, async () => ({ [Symbol.asyncDispose]: async () => {} }));`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", source], {
      env: { NODE_COMPILE_CACHE: cache },
      stdio: ["ignore", "ignore", "inherit"],
    });
    const ended = once(child, "exit");
    try {
      await eventually("the cache is written", () => filesIn(cache).length > 0 || child.exitCode !== null);
    } finally {
      child.kill("SIGKILL");
    }
    assert.deepEqual(await ended, [null, "SIGKILL"]);
    assert.ok(filesIn(cache).length > 0);
  });

  test("its folder is the user's alone; where another could write, there is none", () => {
    const modules = newFolder();
    const own = join(modules, ".cache", "turnpike");
    assert.equal(cacheFolderIn(modules), own);
    assert.equal(statSync(own).mode & 0o777, 0o700);
    assert.equal(cacheFolderIn(modules), own, "found again");
    chmodSync(own, 0o770);
    assert.equal(cacheFolderIn(modules), undefined, "its group can write");
    chmodSync(own, 0o700);
    chmodSync(join(modules, ".cache"), 0o777);
    assert.equal(cacheFolderIn(modules), undefined, "all can replace it");

    const linked = newFolder();
    mkdirSync(join(linked, ".cache"));
    symlinkSync(own, join(linked, ".cache", "turnpike"));
    assert.equal(cacheFolderIn(linked), undefined, "a link leads elsewhere");
    assert.equal(cacheFolderIn(join(linked, "none")), undefined, "nothing is installed");
    assert.ok(!existsSync(join(linked, "none")));
  });
});
