import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, stat, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { isAppError, silentLog } from "@turnpike/base";
import { PlainExtractor } from "../../test/crawl/site.ts";
import { buildPdf } from "../../test/extract/pdf.ts";
import { memoryWriter } from "../../test/files/memory.ts";
import { WorkerExtractor } from "../extract/extractor.ts";
import { openIndexWriter } from "../local/writer.ts";
import type { Extractor, IndexProgress, IndexReport, IndexWriter, SourceDocument } from "../types.ts";
import { type IndexFolderOptions, indexFolder } from "./index-folder.ts";
import { furtherSections } from "./source-state.ts";

const threads = new WorkerExtractor({ workers: 1, maxPageBytes: 10_485_760 }, { log: silentLog });
const made: string[] = [];
after(async () => {
  await threads?.[Symbol.asyncDispose]();
  for (const folder of made) await rm(folder, { recursive: true, force: true });
});

async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-files-"));
  made.push(folder);
  return folder;
}

async function write(folder: string, files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
}

interface Site {
  readonly folder: string;
  readonly documents: Map<string, SourceDocument>;
  /** Paths that were extracted since the last call. */
  readonly extracted: () => string[];
  readonly run: (
    opts?: Partial<IndexFolderOptions>,
    modules?: { signal?: AbortSignal; onProgress?: (progress: IndexProgress) => void; writer?: IndexWriter },
  ) => Promise<IndexReport>;
}

async function createSite(files: Readonly<Record<string, string | Uint8Array>>): Promise<Site> {
  const folder = join(await temporary(), "site");
  await mkdir(folder);
  await write(folder, files);
  const { writer, documents } = memoryWriter();
  const urls: string[] = [];
  const extractor: Extractor = {
    extract(page, signal) {
      urls.push(new URL(page.url).pathname.slice(1));
      return threads.extract(page, signal);
    },
    async [Symbol.asyncDispose]() {},
  };
  const stateFile = `${folder}.sqlite-sources`;
  return {
    folder,
    documents,
    extracted: () => urls.splice(0).sort(),
    run: (opts = {}, modules = {}) =>
      indexFolder(
        { folder, collection: "docs", baseUrl: "https://d.example/base", stateFile, ...opts },
        { writer, extractor, log: silentLog, ...modules },
      ),
  };
}

const at = (path: string): string => `https://d.example/base/${path}`;

describe("indexFolder", () => {
  it("takes the text files of a folder, under percent-encoded addresses", async () => {
    const site = await createSite({
      "a.md": "# A\n\nalpha",
      "sub dir/ü#?.html": "<title>B</title><p>beta",
      "c.txt": "gamma",
      "d.PDF": buildPdf("delta", { title: "D" }),
      "e.rst": "E\n===\n\nepsilon",
      "f.mdx": "# F\n\nphi",
      "g.xhtml":
        '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>G</title></head><body>eta</body></html>',
      "empty.md": "",
      "code.js": "never",
      "binary.txt": Uint8Array.from([0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6]),
      "private.html": "<meta name=robots content=noindex><p>private",
      ".hidden/x.md": "never",
      ".secret.md": "never",
      "node_modules/p/README.md": "never",
    });
    await utimes(join(site.folder, "a.md"), 1_700_000_000, 1_700_000_000);
    const seen: IndexProgress[] = [];
    const report = await site.run({}, { onProgress: (progress) => seen.push(progress) });
    assert.deepEqual(
      [...site.documents.keys()].sort(),
      ["a.md", "c.txt", "d.PDF", "e.rst", "f.mdx", "g.xhtml", "sub%20dir/%C3%BC%23%3F.html"].map(at).sort(),
    );
    assert.deepEqual(site.documents.get(at("a.md")), {
      url: at("a.md"),
      title: "A",
      text: "A\nalpha",
      language: undefined,
      date: "2023-11-14T22:13:20.000Z",
      collection: "docs",
    });
    assert.deepEqual(
      [report.seen, report.indexed, report.skipped, report.removed, report.incomplete],
      [10, 7, 3, 0, false],
    );
    assert.deepEqual(report.reasons, { empty: 1, unsupported: 1, noindex: 1 });
    assert.equal(seen.length, 10);
    assert.deepEqual([seen.at(-1)?.seen, seen.at(-1)?.waiting], [10, 0]);
  });

  it("reads only what changed, and removes what is gone", async () => {
    const site = await createSite({ "a.md": "# A", "b.md": "# B", "c/d.md": "# D", "e.txt": "" });
    await site.run();
    assert.equal(site.extracted().length, 4);
    const again = await site.run();
    assert.deepEqual(site.extracted(), []);
    assert.deepEqual([again.unchanged, again.indexed, again.removed, again.seen], [4, 0, 0, 4]);
    await write(site.folder, { "b.md": "# B is longer", "new.md": "# N", "e.txt": "not empty any more" });
    await rm(join(site.folder, "c"), { recursive: true });
    const third = await site.run();
    assert.deepEqual(site.extracted(), ["b.md", "e.txt", "new.md"]);
    assert.deepEqual([third.unchanged, third.indexed, third.removed], [1, 3, 1]);
    assert.deepEqual([...site.documents.keys()].sort(), ["a.md", "b.md", "e.txt", "new.md"].map(at));
    assert.equal(site.documents.get(at("b.md"))?.title, "B is longer");
  });

  it("reads a file of the same size that has another time", async () => {
    const site = await createSite({ "a.md": "# One" });
    await site.run();
    await writeFile(join(site.folder, "a.md"), "# Two");
    await utimes(join(site.folder, "a.md"), 1, 1);
    await site.run();
    assert.equal(site.documents.get(at("a.md"))?.title, "Two");
  });

  it("removes a document whose file cannot be indexed any more", async () => {
    const site = await createSite({ "a.md": "# A", "b.md": "# B" });
    await site.run();
    await writeFile(join(site.folder, "a.md"), "");
    await truncate(join(site.folder, "b.md"), 2_000_000);
    const report = await site.run({ maxFileBytes: 1_000_000 });
    assert.deepEqual(report.reasons, { empty: 1, too_large: 1 });
    assert.equal(report.removed, 2);
    assert.equal((await site.run({ maxFileBytes: 3_000_000 })).reasons.unsupported, 1);
  });

  it("leaves other collections alone, and follows another base address", async () => {
    const site = await createSite({ "a.md": "# A" });
    await site.run({ collection: "other", baseUrl: "https://o.example/?path=" });
    await site.run();
    const moved = await site.run({ baseUrl: "https://new.example" });
    assert.deepEqual([moved.indexed, moved.removed], [1, 1]);
    assert.deepEqual([...site.documents.keys()].sort(), ["https://new.example/a.md", "https://o.example/?path=a.md"]);
  });

  it("reads again what the index lost, and all when its memory is broken or missing", async () => {
    const site = await createSite({ "a.md": "# A", "b.md": "# B" });
    await site.run();
    site.documents.delete(at("b.md"));
    assert.equal((await site.run()).indexed, 1);
    await writeFile(`${site.folder}.sqlite-sources`, "this is no database, but some other file".repeat(200));
    assert.equal((await site.run()).indexed, 2);
    assert.equal((await site.run()).unchanged, 2);
    assert.equal((await site.run({ stateFile: undefined })).indexed, 2);
  });

  it("does not follow links out of the folder, nor to folders, nor wait for pipes", async () => {
    const site = await createSite({ "a.md": "# A" });
    const outside = await temporary();
    await write(outside, { "secret.md": "# Secret" });
    await symlink(join(outside, "secret.md"), join(site.folder, "out.md"));
    await symlink(outside, join(site.folder, "folder"));
    await symlink(site.folder, join(site.folder, "loop"));
    await symlink("nowhere", join(site.folder, "dangling.md"));
    await symlink("a.md", join(site.folder, "inside.md"));
    const pipe = spawn("mkfifo", [join(site.folder, "pipe.md")]);
    await once(pipe, "exit");
    // A name that begins like the folder's is not within it.
    await write(`${site.folder}-twin`, { "x.md": "# Twin" });
    await symlink(join(`${site.folder}-twin`, "x.md"), join(site.folder, "twin.md"));
    await site.run();
    assert.deepEqual([...site.documents.keys()].sort(), ["a.md", "inside.md"].map(at));
  });

  it("does not remove anything when its bounds end it", async () => {
    const site = await createSite({ "a.md": "# A", "b.md": "# B", "c.md": "# C" });
    await site.run();
    await rm(join(site.folder, "a.md"));
    const bounded = await site.run({ maxFiles: 1 });
    assert.deepEqual([bounded.seen, bounded.incomplete, bounded.removed], [1, true, 0]);
    assert.equal(site.documents.size, 3);
    assert.equal((await site.run()).removed, 1);
  });

  it("ends early when it is told to, and goes on the next time", async () => {
    const site = await createSite(Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`${i}.md`, `# Page ${i}`])));
    const stop = new AbortController();
    const report = await site.run(
      { concurrency: 4 },
      { signal: stop.signal, onProgress: ({ seen }) => seen === 10 && stop.abort() },
    );
    assert.ok(report.incomplete && report.indexed >= 10 && report.indexed <= 14, String(report.indexed));
    assert.equal(site.documents.size, report.indexed);
    const rest = await site.run();
    assert.deepEqual([rest.unchanged, rest.indexed, rest.incomplete], [report.indexed, 60 - report.indexed, false]);
  });

  it("passes on a fault of the index, and remembers nothing of what was not written", async () => {
    const site = await createSite({ "a.md": "# A", "b.md": "# B" });
    const { writer } = memoryWriter();
    const full: IndexWriter = {
      ...writer,
      put() {
        throw new RangeError("disk full");
      },
    };
    await assert.rejects(site.run({}, { writer: full }), RangeError);
    assert.equal((await site.run()).indexed, 2);
  });

  it("refuses what is no folder and no address", async () => {
    const site = await createSite({ "a.md": "# A", "code.js": "never" });
    for (const opts of [
      { folder: join(site.folder, "missing") },
      { folder: join(site.folder, "code.js") },
      { baseUrl: "file:///etc/" },
      { baseUrl: "nonsense" },
    ])
      await assert.rejects(site.run(opts), (error) => isAppError(error, "SOURCE_REFUSED"));
  });

  const words = "Words that fill a section so that it stands by itself. ".repeat(12);
  const long = (...names: readonly string[]): string =>
    `# Guide\n\n${words}\n\n${names.map((name) => `## ${name}\n\n${words} ${name.toLowerCase()}\n`).join("\n")}`;

  it("takes a long page by its sections, and all of them as one when it changes or goes", async () => {
    const site = await createSite({ "a.md": long("Set it up", "What’s limited?", "Ende: Übung"), "b.md": "# B" });
    await site.run();
    const titles = (): Record<string, string> =>
      Object.fromEntries([...site.documents].map(([url, { title }]) => [url.slice(at("").length), title]));
    assert.deepEqual(titles(), {
      "a.md": "Guide",
      "a.md#set-it-up": "Guide: Set it up",
      "a.md#whats-limited": "Guide: What’s limited?",
      "a.md#ende-%C3%BCbung": "Guide: Ende: Übung",
      "b.md": "B",
    });
    assert.ok(site.documents.get(at("a.md#set-it-up"))?.text.endsWith("set it up"));
    assert.deepEqual(furtherSections(`${site.folder}.sqlite-sources`, at("a.md")), [
      at("a.md#set-it-up"),
      at("a.md#whats-limited"),
      at("a.md#ende-%C3%BCbung"),
    ]);
    const again = await site.run();
    assert.deepEqual([again.unchanged, again.indexed, again.removed], [2, 0, 0]);
    await write(site.folder, { "a.md": long("Set it up", "New") });
    const changed = await site.run();
    assert.deepEqual([changed.indexed, changed.removed], [1, 2]);
    assert.deepEqual(Object.keys(titles()).sort(), ["a.md", "a.md#new", "a.md#set-it-up", "b.md"]);
    await rm(join(site.folder, "a.md"));
    assert.equal((await site.run()).removed, 3);
    assert.deepEqual(Object.keys(titles()), ["b.md"]);
  });

  it("takes old sections away in a run that does not see all files, and reads a page again that lost one", async () => {
    const site = await createSite({ "a.md": long("One", "Two"), "b.md": "# B" });
    await site.run();
    await write(site.folder, { "a.md": long("Two", "Three") });
    await site.run({ maxFiles: 1 });
    assert.deepEqual([...site.documents.keys()].sort(), ["a.md", "a.md#three", "a.md#two", "b.md"].map(at));
    site.documents.delete(at("a.md#three"));
    assert.equal((await site.run()).indexed, 1);
    assert.equal(site.documents.size, 4);
  });

  it("a run that ends between writing sections and taking old ones away is made good by the next", async () => {
    const site = await createSite({ "a.md": long("One", "Two") });
    await site.run();
    await write(site.folder, { "a.md": long("Two", "Three") });
    const { writer } = memoryWriter();
    const dying: IndexWriter = {
      ...writer,
      put(documents) {
        for (const document of documents) site.documents.set(document.url, document);
      },
      urlsOf: () => [...site.documents.keys()],
      remove() {
        throw new RangeError("power failed");
      },
    };
    await assert.rejects(site.run({}, { writer: dying }), RangeError);
    assert.ok(site.documents.has(at("a.md#one")) && site.documents.has(at("a.md#three")));
    assert.equal((await site.run()).removed, 1);
    assert.deepEqual([...site.documents.keys()].sort(), ["a.md", "a.md#three", "a.md#two"].map(at));
  });

  it("takes a single file", async () => {
    const site = await createSite({ "a.md": "# A", "b.md": "# B" });
    await site.run({ folder: join(site.folder, "a.md") });
    assert.deepEqual([...site.documents.keys()], [at("a.md")]);
    assert.equal((await site.run({ folder: join(site.folder, "a.md") })).unchanged, 1);
  });

  for (const moment of ["before", "after"] as const)
    it(`after kill -9 ${moment} a batch is written, the next run goes on and ends right`, async () => {
      const folder = await temporary();
      const files = Object.fromEntries(
        Array.from({ length: 600 }, (_, i) => [`site/${i}.md`, `# Page ${i}\n\nwords ${i}`]),
      );
      await write(folder, files);
      const site = join(folder, "site");
      const file = join(folder, "index.sqlite");
      const script = fileURLToPath(new URL("../../test/files/child.ts", import.meta.url));
      const child = spawn(process.execPath, [script, site, file, moment], { stdio: "inherit" });
      const [, signal] = await once(child, "exit");
      assert.equal(signal, "SIGKILL");
      using writer = openIndexWriter({ file }, { log: silentLog });
      const held = [...writer.urlsOf("docs")].length;
      assert.equal(held, moment === "before" ? 256 : 512);
      await rm(join(site, "0.md"));
      const opts = { folder: site, collection: "docs", baseUrl: "https://docs.example/", stateFile: `${file}-sources` };
      await using extractor = new PlainExtractor();
      const report = await indexFolder(opts, { writer, extractor, log: silentLog });
      // What was written and not remembered is read again; what was remembered is not.
      assert.deepEqual([report.unchanged, report.indexed, report.removed, report.incomplete], [255, 344, 1, false]);
      const urls = [...writer.urlsOf("docs")];
      assert.equal(urls.length, 599);
      assert.equal(new Set(urls).size, 599);
      assert.ok((await stat(`${file}-sources`)).size > 0);
      assert.equal((await indexFolder(opts, { writer, extractor, log: silentLog })).unchanged, 599);
    });
});
