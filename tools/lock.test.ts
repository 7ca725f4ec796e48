import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { completeLock, type Lock, missingEntries, platformOf } from "./complete-lock.ts";
import { files, readPackage, readText } from "./sources.ts";

const lock = JSON.parse(readText("package-lock.json")) as Lock;

suite("package-lock.json", () => {
  test("has an entry for every optional package, of every platform (else: npm run lock)", () => {
    assert.deepEqual(
      missingEntries(lock).map(({ name }) => name),
      [],
    );
  });

  test("names the workspaces' dependencies as their package.json does (else: npm install, npm run lock)", () => {
    for (const path of ["package.json", ...files("packages/*/package.json", "apps/*/package.json")]) {
      const folder = path === "package.json" ? "" : path.slice(0, -"/package.json".length);
      const json = readPackage(path);
      const entry = lock.packages[folder];
      assert.ok(entry !== undefined, `${folder} is not in the lock`);
      for (const key of ["dependencies", "devDependencies", "optionalDependencies"] as const) {
        const wanted = json[key] ?? {};
        if (Object.keys(wanted).length > 0) assert.deepEqual(entry[key], wanted, `${folder} ${key}`);
      }
    }
  });

  test("names no registry", () => {
    for (const [path, entry] of Object.entries(lock.packages)) {
      if (entry.link !== true) assert.equal(entry.resolved, undefined, path);
    }
  });

  test("reads a platform from a name as the packages themselves declare it", () => {
    let compared = 0;
    for (const entry of Object.values(lock.packages)) {
      const names = Object.keys(entry.optionalDependencies ?? {});
      for (const name of names) {
        const own = lock.packages[`node_modules/${name}`];
        if (own?.integrity === undefined || own.os === undefined) continue;
        const { os, cpu, libc } = own;
        const declared = { os, cpu, ...(libc === undefined ? {} : { libc }) };
        assert.deepEqual({ ...platformOf(name, names) }, declared, name);
        compared++;
      }
    }
    assert.ok(compared > 20, `only ${compared} compared`);
  });

  test("an entry that is taken out is put back", () => {
    const copy = structuredClone(lock);
    const names = Object.keys(copy.packages).filter((path) => path.includes("/@biomejs/cli-"));
    assert.ok(names.length >= 8);
    for (const path of names) delete copy.packages[path];
    assert.equal(completeLock(copy).length, names.length);
    for (const path of names) {
      assert.equal(copy.packages[path]?.version, lock.packages[path]?.version);
      assert.deepEqual(copy.packages[path]?.libc, lock.packages[path]?.libc, path);
    }
  });
});
