import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
  let wake = (): void => {};
  const next = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  using _watch = watchConfigFile({ file, intervalMs: 20, settleMs: 20 }, () => wake());
  const keepAlive = setInterval(() => {}, 1_000);
  try {
    let seen = next();
    writeFileSync(target, "a: 12\n");
    await seen;
    seen = next();
    writeFileSync(join(folder, "new"), "a: 123\n");
    renameSync(join(folder, "new"), target);
    await seen;
    seen = next();
    writeFileSync(join(folder, "b.yaml"), "a: 1234\n");
    symlinkSync(join(folder, "b.yaml"), join(folder, "link"));
    renameSync(join(folder, "link"), file);
    await seen;
  } finally {
    clearInterval(keepAlive);
  }
});
