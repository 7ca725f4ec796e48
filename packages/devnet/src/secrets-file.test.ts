import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { readOrMakeSecrets } from "./secrets-file.ts";

async function scratch(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-secrets-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("secrets are made once, and read from then on, by their owner alone", async (t) => {
  const file = join(await scratch(t), "keys.json");
  const made = await readOrMakeSecrets(file, () => ({ key: "first" }));
  const read = await readOrMakeSecrets(file, () => ({ key: "second" }));
  assert.deepEqual([made, read], [{ key: "first" }, { key: "first" }]);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test("secrets of another mode are made private", async (t) => {
  const file = join(await scratch(t), "keys.json");
  await writeFile(file, '{"key":"old"}', { mode: 0o644 });
  assert.deepEqual(await readOrMakeSecrets(file, () => ({})), { key: "old" });
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test("what cannot be read is not replaced: keys may be in it", async (t) => {
  const folder = await scratch(t);
  const file = join(folder, "keys.json");
  // A folder in its place fails to be read for every user; root can read a file of any mode.
  await mkdir(file);
  await assert.rejects(
    readOrMakeSecrets(file, () => assert.fail("no other secrets are made")),
    { code: "DATA_FOLDER", message: /keys\.json cannot be read \(EISDIR\)/ },
  );
  assert.deepEqual(await readdir(folder), ["keys.json"]);
});

test("a damaged file has no members, and stays as it is", async (t) => {
  const file = join(await scratch(t), "keys.json");
  await writeFile(file, '{"key":"o');
  assert.deepEqual(await readOrMakeSecrets(file, () => ({ key: "new" })), {});
  assert.equal(await readFile(file, "utf8"), '{"key":"o');
});
