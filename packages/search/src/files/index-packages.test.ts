import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, describe, it } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { memoryWriter } from "../../test/files/memory.ts";
import { WorkerExtractor } from "../extract/extractor.ts";
import type { IndexReport } from "../types.ts";
import { type IndexPackagesOptions, indexPackages } from "./index-packages.ts";

const extractor = new WorkerExtractor({ workers: 1, maxPageBytes: 10_485_760 }, { log: silentLog });
const made: string[] = [];
after(async () => {
  await extractor?.[Symbol.asyncDispose]();
  for (const folder of made) await rm(folder, { recursive: true, force: true });
});

async function createModules(files: Readonly<Record<string, unknown>>) {
  const root = await mkdtemp(join(tmpdir(), "turnpike-packages-"));
  made.push(root);
  const nodeModules = join(root, "node_modules");
  const write = async (path: string, content: unknown): Promise<void> => {
    const file = join(nodeModules, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
    // As in the archives of npm.
    await utimes(file, 499_162_500, 499_162_500);
  };
  await mkdir(nodeModules);
  for (const [path, content] of Object.entries(files)) await write(path, content);
  const { writer, documents } = memoryWriter();
  const run = (opts: Partial<IndexPackagesOptions> = {}): Promise<IndexReport> =>
    indexPackages(
      { nodeModules, collection: "packages", baseUrl: "http://own.example/p/", stateFile: `${root}/state`, ...opts },
      { writer, extractor, log: silentLog },
    );
  const titles = (): Record<string, string> =>
    Object.fromEntries([...documents.values()].map(({ url, title }) => [url, title]));
  return { root, nodeModules, write, documents, run, titles };
}

describe("indexPackages", () => {
  it("takes READMEs and docs of packages, under the addresses where they are published", async () => {
    const { run, titles, documents } = await createModules({
      "plain/package.json": { name: "plain", version: "1.2.3", repository: "o/plain" },
      "plain/README.md": "# Plain\n\nwords",
      "plain/CHANGELOG.md": "# never",
      "plain/docs/Guide.md": "# How to\n\nwords",
      "plain/docs/CHANGELOG.md": "# never",
      "plain/docs/deep/page.html": "<title>Page</title><p>words",
      "plain/docs/Named.md": '<h1 align="center">Plain</h1>\n\n## Named',
      "plain/docs/some-topic.md": "# plain\n\nwords",
      "plain/docs/code.js": "never",
      "plain/docs/node_modules/x.md": "never",
      "plain/lib/other.md": "never",
      "plain/node_modules/nested/README.md": "never",
      "plain/node_modules/nested/package.json": {},
      "@scope/part/package.json": {
        name: "@scope/part",
        version: "0.1.0",
        repository: { url: "git+https://gitlab.com/s/mono.git", directory: "packages/part" },
      },
      "@scope/part/readme.markdown": "# Part of it",
      "@scope/part/doc/a.md": "# @scope/part: a",
      "home/package.json": { name: "home", version: "2.0.0", homepage: "https://home.example/" },
      "home/README": "HOME\n\nplain text",
      "home/docs/x.md": "text without heading",
      "lost/package.json": { name: "lost" },
      "lost/README.md": "no heading",
      "broken/package.json": "{",
      "broken/README.md": "# never",
      "bare/README.md": "# never",
      ".bin/README.md": "# never",
      ".package-lock.json": {},
    });
    const report = await run();
    assert.deepEqual(titles(), {
      "https://github.com/o/plain#readme": "Plain",
      "https://github.com/o/plain/blob/HEAD/docs/Guide.md": "plain 1.2.3: How to",
      "https://github.com/o/plain/blob/HEAD/docs/Named.md": "plain 1.2.3: Named",
      "https://github.com/o/plain/blob/HEAD/docs/some-topic.md": "plain 1.2.3: some topic",
      "https://github.com/o/plain/blob/HEAD/docs/deep/page.html": "plain 1.2.3: Page",
      "https://gitlab.com/s/mono/tree/HEAD/packages/part#readme": "@scope/part 0.1.0: Part of it",
      "https://gitlab.com/s/mono/blob/HEAD/packages/part/doc/a.md": "@scope/part: a",
      "https://home.example/": "HOME",
      "https://home.example/#docs/x.md": "home 2.0.0: x.md",
      "http://own.example/p/lost/README.md": "lost: README.md",
    });
    assert.ok([...documents.values()].every(({ date }) => date === undefined));
    assert.deepEqual([report.indexed, report.skipped, report.incomplete], [10, 0, false]);
  });

  it("gives packages of one repository an address each, the same in every run", async () => {
    const repository = "https://github.com/o/mono";
    const { run, titles } = await createModules({
      "a/package.json": { name: "a", version: "1.0.0", repository },
      "a/README.md": "# a",
      "b/package.json": { name: "b", version: "1.0.0", repository },
      "b/README.md": "# b",
      "b/README.de.md": "# b deutsch",
    });
    await run();
    const first = titles();
    assert.deepEqual(first, {
      "https://github.com/o/mono#readme": "a",
      "https://github.com/o/mono#b/README.md": "b",
      "https://github.com/o/mono/blob/HEAD/README.de.md": "b deutsch",
    });
    assert.equal((await run()).unchanged, 3);
    assert.deepEqual(titles(), first);
  });

  it("a package that calls one of our own addresses its page does not take another file's place", async () => {
    const { run, titles } = await createModules({
      "a/package.json": { name: "a", version: "1.0.0", homepage: "http://own.example/p/z/README.md" },
      "a/README.md": "# False",
      "z/package.json": { name: "z", version: "1.0.0" },
      "z/README.md": "# z",
    });
    await run();
    assert.deepEqual(titles(), {
      "http://own.example/p/a/README.md": "False",
      "http://own.example/p/z/README.md": "z",
    });
    await run({ baseUrl: "http://own.example/p/node_modules-1/" });
    assert.equal(titles()["http://own.example/p/z/README.md"], undefined, "nor that of another source");
  });

  it("sections of packages that share one address have addresses of their own", async () => {
    const long = `# Part\n\n${"words ".repeat(150)}\n\n## Use\n\n${"words ".repeat(150)}\n\n## Readme\n\n${"words ".repeat(150)}`;
    const { run, write, titles } = await createModules({
      "a/package.json": { name: "a", version: "1.0.0", repository: "o/both" },
      "a/README.md": long,
      "b/package.json": { name: "b", version: "1.0.0", homepage: "https://github.com/o/both" },
      "b/README.md": long,
    });
    await run();
    const page = "https://github.com/o/both";
    assert.deepEqual(Object.keys(titles()).sort(), [
      page,
      `${page}#a/README.md/readme`,
      `${page}#b/README.md/readme`,
      `${page}#b/README.md/use`,
      `${page}#readme`,
      `${page}#use`,
    ]);
    assert.equal(titles()[`${page}#b/README.md/use`], "b 1.0.0: Part: Use");
    assert.equal((await run()).unchanged, 2);
    // Now the other is the one that the page is of.
    await write("a/package.json", { name: "a", version: "1.0.0", repository: "o/elsewhere" });
    assert.equal((await run()).indexed, 2);
    assert.equal(titles()[`${page}#use`], "b 1.0.0: Part: Use");
    assert.equal(titles()["https://github.com/o/elsewhere#use"], "Part: Use");
    assert.equal(Object.keys(titles()).length, 6);
  });

  it("notices another version although size and time are the same, and a package that is gone", async () => {
    const { run, write, nodeModules, titles } = await createModules({
      "a/package.json": { name: "a", version: "1.0.0", repository: "o/a" },
      "a/README.md": "# Old word",
      "b/package.json": { name: "b", version: "1.0.0", repository: "o/b" },
      "b/README.md": "# b",
    });
    await run();
    await write("a/package.json", { name: "a", version: "1.0.1", repository: "o/a" });
    await write("a/README.md", "# New word");
    await rm(join(nodeModules, "b"), { recursive: true });
    const report = await run();
    assert.deepEqual([report.indexed, report.removed], [1, 1]);
    assert.deepEqual(titles(), { "https://github.com/o/a#readme": "a 1.0.1: New word" });
  });

  it("holds to its bounds", async () => {
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`a/docs/${i}.md`, `# Page ${i}`]));
    const { run, documents, write } = await createModules({
      "a/package.json": { name: "a", repository: "o/a" },
      "a/README.md": "# a",
      ...many,
      "b/package.json": { name: "b", repository: "o/b" },
      "b/README.md": `# b\n${"x".repeat(5_000)}`,
    });
    await run({ maxPackageFiles: 10, maxPackageBytes: 4_000 });
    assert.equal(documents.size, 10);
    assert.equal((await run({ maxPackages: 1 })).incomplete, true);
    await write("c/package.json", `{"name":"c","x":"${"x".repeat(1_100_000)}"}`);
    await write("c/README.md", "# c");
    assert.equal((await run({ maxFileBytes: 1_000 })).reasons.too_large, 1);
    assert.ok(![...documents.values()].some(({ title }) => title === "c"));
  });

  it("does not follow links out of the folder", async () => {
    const { run, root, nodeModules, write, titles } = await createModules({
      ".store/real/package.json": { name: "real", repository: "o/real" },
      ".store/real/README.md": "# real",
      "a/package.json": { name: "a", repository: "o/a" },
      "a/docs/x.md": "# x of a",
    });
    await mkdir(join(root, "workspace"));
    await writeFile(join(root, "workspace", "package.json"), '{"name":"workspace"}');
    await writeFile(join(root, "workspace", "README.md"), "# workspace");
    await symlink(join(root, "workspace"), join(nodeModules, "workspace"));
    await symlink(join(nodeModules, ".store", "real"), join(nodeModules, "real"));
    await symlink(join(root, "workspace", "README.md"), join(nodeModules, "a", "README.md"));
    await symlink(join(root, "workspace", "README.md"), join(nodeModules, "a", "docs", "y.md"));
    await symlink(join(root, "workspace"), join(nodeModules, "a", "doc"));
    await write("file", "not a folder");
    await run();
    assert.deepEqual(titles(), {
      "https://github.com/o/a/blob/HEAD/docs/x.md": "x of a",
      "https://github.com/o/real#readme": "real",
    });
  });

  it("refuses what is no folder", async () => {
    const { run, root } = await createModules({});
    await assert.rejects(run({ nodeModules: join(root, "none") }), (error) => isAppError(error, "SOURCE_REFUSED"));
    assert.equal((await run()).seen, 0);
  });
});
