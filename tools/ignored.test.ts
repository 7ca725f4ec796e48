import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { files, ROOT, readText } from "./sources.ts";

/** What commands and people leave in a clone, and what no commit and no image may have. */
const PRIVATE = [
  "relayers.json",
  "buyer.json",
  "keys.txt",
  "mykey",
  "turnpike.yaml",
  "staging.yaml",
  ".env",
  "spend.jsonl",
  "chain/keys/faucet.json",
  "testnet/node0/config/priv_validator_key.json",
  ".turnpike/keys.json",
  "apps/turnpike/.env.local",
  "apps/turnpike/buyer.key",
  "packages/payment/.turnpike/up.json",
  "packages/payment/tls.pem",
];

function git(folder: string, args: readonly string[], input = ""): string {
  const { stdout, stderr, status } = spawnSync("git", args, { cwd: folder, input, encoding: "utf8" });
  assert.ok(status === 0 || status === 1, stderr);
  return stdout;
}

/** What an ignore file of an image keeps out, by its last rule that fits. */
function keptOut(rules: readonly string[], path: string): boolean {
  const parents = path.split("/").map((_, at, parts) => parts.slice(0, at + 1).join("/"));
  return rules.reduce((out, rule) => {
    const pattern = rule.replace(/^!/, "");
    const names = pattern.startsWith("**/") ? path.split("/") : parents;
    const glob = new RegExp(`^${pattern.replace("**/", "").replaceAll(".", "\\.").replaceAll("*", "[^/]*")}$`);
    return names.some((name) => glob.test(name)) ? !rule.startsWith("!") : out;
  }, false);
}

suite("keys that lie in a clone", () => {
  test("git takes none of them, and everything that is the repository's", () => {
    const folder = mkdtempSync(join(tmpdir(), "turnpike-ignore-"));
    try {
      git(folder, ["init", "--quiet"]);
      copyFileSync(join(ROOT, ".gitignore"), join(folder, ".gitignore"));
      const ignored = (paths: readonly string[]): string[] =>
        git(folder, ["check-ignore", "--no-index", "--stdin"], paths.join("\n")).split("\n").filter(Boolean);
      assert.deepEqual(ignored(PRIVATE), PRIVATE);
      const own = files("*.json", "{apps,bench,docs,ops,packages,test,tools}/**/*.{ts,md,json,sql,yaml,proto}");
      assert.ok(own.length > 1_000, `${own.length} files`);
      assert.deepEqual(ignored(own), []);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("the image takes none of them, with any builder", () => {
    assert.ok(!existsSync(join(ROOT, "ops/chain/Dockerfile.dockerignore")), "one that only some builders read");
    const rules = readText(".dockerignore")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    assert.equal(rules[0], "*");
    for (const path of PRIVATE) assert.ok(keptOut(rules, path), path);
    for (const path of ["package.json", "apps/turnpike/bin/turnpike.js", "packages/payment/migrations/0001.sql"]) {
      assert.ok(!keptOut(rules, path), path);
    }
    const copied = [...readText("ops/chain/Dockerfile").matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
      ([, names = ""]) => names.split(" "),
    );
    const included = rules.filter((rule) => rule.startsWith("!")).map((rule) => rule.slice(1));
    assert.deepEqual(copied.sort(), included.sort());
  });

  test("no page makes one there", () => {
    const pages = ["README.md", ...files("docs/**/*.md")];
    const made = pages.flatMap((page) =>
      [...readText(page).matchAll(/keys new ([^\s`]+)/g)].map(([, file = ""]) => `${page}: ${file}`),
    );
    assert.ok(made.length >= 4);
    assert.deepEqual(
      made.filter((line) => !/: (~\/|\/|<)/.test(line)),
      [],
    );
  });
});
