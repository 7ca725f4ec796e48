import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { watchConfigFile } from "./config-watch.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-watch-"));
after(() => rmSync(folder, { recursive: true, force: true }));

test("sees a file that is written, put in place by a rename, or reached by another link", {
  timeout: 60_000,
}, async () => {
  const target = join(folder, "a.yaml");
  const file = join(folder, "turnpike.yaml");
  writeFileSync(target, "a: 1\n");
  symlinkSync(target, file);
  const wakes: string[] = [];
  let wake = (): void => {};
  using _watch = watchConfigFile({ file, intervalMs: 20, settleMs: 20 }, () => {
    wakes.push(readFileSync(file, "utf8"));
    wake();
  });
  const seen = (text: string): Promise<void> =>
    new Promise((resolve) => {
      wake = () => {
        if (wakes.at(-1) === text) resolve();
      };
    });
  const keepAlive = setInterval(() => {}, 1_000);
  try {
    let next = seen("a: 12\n");
    writeFileSync(join(folder, "new"), "a: 12\n");
    renameSync(join(folder, "new"), target);
    await next;
    next = seen("a: 123\n");
    const other = join(folder, "b.yaml");
    writeFileSync(other, "a: 123\n");
    symlinkSync(other, join(folder, "link"));
    renameSync(join(folder, "link"), file);
    await next;
    // Each was one change, so none was seen in the place of another.
    assert.deepEqual(wakes, ["a: 12\n", "a: 123\n"]);
    // Last, since it may be seen twice: the file is emptied first.
    next = seen("a: 1234\n");
    writeFileSync(other, "a: 1234\n");
    await next;
  } finally {
    clearInterval(keepAlive);
  }
});
