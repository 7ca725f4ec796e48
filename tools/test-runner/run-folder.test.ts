import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { makeRunFolder, processesNaming } from "./run-folder.ts";

const { TMPDIR } = process.env;
after(() => {
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
});

test("what a run leaves behind in its folder ends with it: servers in groups of their own, and files", async () => {
  const folder = makeRunFolder();
  assert.ok(mkdtempSync(join(tmpdir(), "x-")).startsWith(folder.path));
  const script = 'process.stdout.write("up"); setInterval(() => {}, 1e6)';
  const left = spawn(process.execPath, ["-e", script, join(folder.path, "data")], { detached: true });
  const ended = once(left, "exit");
  await once(left.stdout, "data");
  assert.deepEqual(processesNaming(folder.path), [left.pid]);
  folder[Symbol.dispose]();
  assert.deepEqual(await ended, [null, "SIGKILL"]);
  assert.ok(!existsSync(folder.path));
});
