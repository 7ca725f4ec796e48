import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { postgresUser, runAs } from "./postgres-programs.ts";

const run = promisify(execFile);
const notRoot = process.getuid?.() !== 0 || !existsSync("/usr/bin/setpriv");

test("root's server gets through a folder that only root may enter, as access(2) sees it too", {
  skip: notRoot,
}, async () => {
  // A folder of `mktemp -d` and root's home are like this. PostgreSQL's programs ask access(2) about themselves first.
  const folder = await mkdtemp(join(tmpdir(), "turnpike-closed-"));
  try {
    const program = join(folder, "program");
    await copyFile("/bin/sh", program);
    const as = await runAs(await postgresUser(), [program]);
    assert.ok(as.program !== undefined);
    const script =
      "const fs = require('node:fs'); fs.accessSync(process.argv[1], fs.constants.X_OK); console.log(process.getuid());";
    const { stdout } = await run(as.program, [...as.args, process.execPath, "-e", script, program]);
    assert.equal(Number(stdout), as.uid);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
