import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { silentLog } from "@turnpike/base";
import { documentOf, temporaryFolder } from "../../test/local/index.ts";
import { IndexSearcher } from "./searcher.ts";
import { openIndexWriter } from "./writer.ts";

const modules = { log: silentLog };
const soon = (): number => performance.now() + 60_000;

test("documents are put, replaced and removed, and counted by collection and language", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, modules);
  const texts = [
    documentOf({ url: "https://a.test/1", text: "An English text about bridges and rivers.", language: undefined }),
    documentOf({ url: "https://a.test/2", text: "Ein deutscher Text über Brücken und Flüsse.", language: undefined }),
    documentOf({ url: "https://b.test/1", text: "Un texte", language: "fr-CA", collection: "other" }),
  ];
  writer.put(texts);
  writer.put(texts);
  assert.deepEqual(writer.stats().collections, [
    { name: "other", documents: 1 },
    { name: "test", documents: 2 },
  ]);
  assert.deepEqual(writer.stats().languages, { de: 1, en: 1, fr: 1 });
  assert.deepEqual([...writer.urlsOf("test")], ["https://a.test/1", "https://a.test/2"]);
  using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
  assert.equal(searcher.search("bridges", 5, soon()).length, 1);
  writer.put([documentOf({ url: "https://a.test/1", title: "Now", text: "Another text, of tunnels." })]);
  assert.deepEqual(searcher.search("bridges", 5, soon()), []);
  assert.equal(searcher.search("tunnel", 5, soon())[0]?.title, "Now");
  assert.equal(writer.remove(["https://a.test/1", "https://nowhere.test/", "https://a.test/2"]), 2);
  assert.deepEqual(searcher.search("tunnel", 5, soon()), []);
  assert.deepEqual([...writer.urlsOf("test")], []);
  assert.equal(writer.stats().documents, 1);
  assert.ok(writer.stats().bytes > 0);
});

test("the same URL twice in one put is one document, the last", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, modules);
  writer.put([
    documentOf({ url: "https://a.test/", text: "first" }),
    documentOf({ url: "https://a.test/", text: "second" }),
  ]);
  using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
  assert.equal(searcher.document("https://a.test/")?.text, "second");
  assert.deepEqual(searcher.search("first", 5, soon()), []);
});

test("URLs of a collection come in pages, also while documents are removed", () => {
  using folder = temporaryFolder();
  using writer = openIndexWriter({ file: join(folder.path, "index.sqlite") }, modules);
  const urls = Array.from({ length: 2_500 }, (_, n) => `https://a.test/${n}`);
  writer.put(urls.map((url) => documentOf({ url, text: "x" })));
  let seen = 0;
  for (const url of writer.urlsOf("test")) {
    seen++;
    if (seen % 500 === 0) writer.remove([url]);
  }
  assert.equal(seen, 2_500);
  assert.equal(writer.stats().documents, 2_495);
});

test("odd documents are kept: NUL, lone surrogates, endless words, a mebibyte of one letter", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, modules);
  const texts = [
    "a\0b \ud800 c",
    "x".repeat(2_000_000),
    "漢".repeat(50_000),
    "",
    "\ud83d",
    "1".repeat(100_000),
    "a ".repeat(400_000),
  ];
  writer.put(
    texts.map((text, n) =>
      documentOf({ url: `https://a.test/${n}`, title: `\0${text.slice(0, 3_000)}`, text, language: undefined }),
    ),
  );
  assert.equal(writer.stats().documents, texts.length);
  using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
  assert.equal(searcher.document("https://a.test/0")?.text, "a b \ufffd c");
  for (const hit of searcher.search("a 漢 x", 50, soon()))
    assert.ok(hit.snippet.isWellFormed() && hit.snippet.length <= 200);
});

test("a file that is no index is refused, unharmed, with its path and the fix", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  const refused = (why: RegExp): void => {
    const before = readFileSync(file);
    for (const run of [
      () => openIndexWriter({ file }, modules),
      () => {
        using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
        searcher.search("x", 1, soon());
      },
    ]) {
      assert.throws(run, (error: { code: string; message: string }) => {
        assert.equal(error.code, "SEARCH_INDEX");
        assert.ok(error.message.includes(JSON.stringify(file)), error.message);
        assert.match(error.message, why);
        return true;
      });
    }
    assert.deepEqual(readFileSync(file), before);
    rmSync(file);
  };
  writeFileSync(file, "a letter to my mother, which must not be lost");
  refused(/not an index/u);
  const foreign = new DatabaseSync(file);
  foreign.exec("create table letters (text)");
  foreign.close();
  refused(/another program/u);
  openIndexWriter({ file }, modules)[Symbol.dispose]();
  const newer = new DatabaseSync(file);
  newer.exec("pragma user_version = 99");
  newer.close();
  refused(/version 99.*Remove it/u);
});

test("an index in a folder that is not there is refused with its path", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "none", "index.sqlite");
  assert.throws(
    () => openIndexWriter({ file }, modules),
    (error: { code: string; message: string }) => {
      assert.equal(error.code, "SEARCH_INDEX");
      return error.message.includes(JSON.stringify(file));
    },
  );
});

test("a damaged index is refused when it is written or read", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  {
    using writer = openIndexWriter({ file }, modules);
    writer.put(
      Array.from({ length: 300 }, (_, n) => documentOf({ url: `https://a.test/${n}`, text: `word${n} common` })),
    );
  }
  const bytes = readFileSync(file);
  for (let at = 4_096; at < bytes.length; at++) bytes[at] = (bytes[at] ?? 0) ^ 0x5a;
  writeFileSync(file, bytes);
  using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
  assert.throws(() => searcher.search("common", 5, soon()), { code: "SEARCH_INDEX" });
  assert.throws(
    () => {
      using writer = openIndexWriter({ file }, modules);
      writer.put([documentOf({ url: "https://a.test/new" })]);
    },
    { code: "SEARCH_INDEX" },
  );
});

test("an empty file, as one killed at its start leaves it, is made an index", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  writeFileSync(file, "");
  using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
  assert.deepEqual(searcher.search("x", 5, soon()), []);
  using writer = openIndexWriter({ file }, modules);
  writer.put([documentOf({ url: "https://a.test/", text: "x" })]);
  assert.equal(searcher.search("x", 5, soon()).length, 1);
});

test("two writers take turns; one that waits too long is told who is in its way", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using one = openIndexWriter({ file }, modules);
  using two = openIndexWriter({ file, busyTimeoutMs: 20 }, modules);
  one.put([documentOf({ url: "https://a.test/1" })]);
  two.put([documentOf({ url: "https://a.test/2" })]);
  one.put([documentOf({ url: "https://a.test/3" })]);
  assert.equal(two.stats().documents, 3);
  const other = new DatabaseSync(file);
  other.exec("begin immediate");
  assert.throws(() => two.put([documentOf({ url: "https://a.test/4" })]), { code: "SEARCH_INDEX_BUSY" });
  other.exec("commit");
  other.close();
  two.put([documentOf({ url: "https://a.test/4" })]);
  assert.equal(one.stats().documents, 4);
});

test("an index that is copied or moved after its writer has ended is whole", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using reader = new IndexSearcher({ file, maxSnippetChars: 200 });
  {
    using writer = openIndexWriter({ file }, modules);
    writer.put([documentOf({ url: "https://a.test/old", text: "harbour" })]);
    assert.equal(reader.search("harbour", 5, soon()).length, 1);
  }
  copyFileSync(file, join(folder.path, "copy.sqlite"));
  using copy = new IndexSearcher({ file: join(folder.path, "copy.sqlite"), maxSnippetChars: 200 });
  assert.equal(copy.search("harbour", 5, soon()).length, 1);
  {
    using writer = openIndexWriter({ file: join(folder.path, "next.sqlite") }, modules);
    writer.put([documentOf({ url: "https://a.test/new", text: "harbour" })]);
  }
  renameSync(join(folder.path, "next.sqlite"), file);
  assert.equal(reader.search("harbour", 5, soon())[0]?.url, "https://a.test/new");
});

test("an index that is removed and made anew is picked up, whatever is left beside it", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using reader = new IndexSearcher({ file, maxSnippetChars: 200 });
  const before = openIndexWriter({ file }, modules);
  before.put(Array.from({ length: 200 }, (_, n) => documentOf({ url: `https://a.test/${n}`, text: "harbour" })));
  assert.equal(reader.search("harbour", 50, soon()).length, 1);
  // its log and shared memory stay, as after `rm` of the file alone
  rmSync(file);
  {
    using writer = openIndexWriter({ file }, modules);
    writer.put([documentOf({ url: "https://a.test/new", text: "lighthouse" })]);
    assert.deepEqual(writer.stats().documents, 1);
    assert.equal(reader.search("lighthouse", 5, soon()).length, 1);
    assert.deepEqual(reader.search("harbour", 5, soon()), []);
    // who still writes the removed one writes into what it has mapped, which must not be the new one's
    before.put([documentOf({ url: "https://a.test/late", text: "harbour" })]);
    writer.put([documentOf({ url: "https://a.test/newer", text: "a second lighthouse" })]);
    assert.deepEqual(writer.stats().documents, 2);
    assert.equal(reader.search("lighthouse", 5, soon()).length, 2);
    assert.deepEqual(reader.search("harbour", 5, soon()), []);
  }
  rmSync(file);
  assert.deepEqual(reader.search("lighthouse", 5, soon()), []);
  before[Symbol.dispose]();
});

test("after kill -9 the index holds whole documents, and all whose put had returned", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  for (const round of [0, 1, 2]) {
    const child = spawn(
      process.execPath,
      [join(import.meta.dirname, "../../test/local/writer.ts"), file, String(round)],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const ended = once(child, "exit");
    const acknowledged: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      acknowledged.push(line);
      if (acknowledged.length === 20 + round * 7) child.kill("SIGKILL");
    }
    await ended;
    assert.equal(child.signalCode, "SIGKILL");
    using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
    for (const url of acknowledged) {
      const document = searcher.document(url);
      const number = url.split("/").at(-1);
      assert.equal(document?.text, `document ${number} `.repeat(200));
    }
    const raw = new DatabaseSync(file);
    assert.equal(raw.prepare("pragma integrity_check").get()?.integrity_check, "ok");
    raw.exec("insert into terms (terms) values ('integrity-check')");
    const count = (table: string): unknown => raw.prepare(`select count(*) as n from ${table}`).get()?.n;
    assert.equal(count("documents"), count("texts"));
    assert.equal(count("documents"), count("terms_docsize"));
    raw.close();
  }
});
