import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, constants, openSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { documentOf, temporaryFolder } from "../../test/local/index.ts";
import { openLocalEngine } from "./engine.ts";
import { ThreadPool } from "./thread-pool.ts";
import { openIndexWriter } from "./writer.ts";

const TIMEOUT_MS = 60_000;
const modules = { log: silentLog };
const { signal } = new AbortController();
const script = (code: string): URL => new URL(`data:text/javascript,${encodeURIComponent(code)}`);
const pool = (
  code: string,
  more: { readonly threads?: number; readonly timeoutMs?: number; readonly maxQueued?: number },
) =>
  new ThreadPool(
    {
      file: "none",
      maxSnippetChars: 100,
      threads: 1,
      timeoutMs: TIMEOUT_MS,
      maxQueued: 10,
      ...more,
      script: script(code),
    },
    modules,
  );
const ask = (name: string) => () => ({ ask: "document", url: name }) as const;

test("an index that is not there yet has no hits; it is found when it comes, and followed when it is replaced", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  await using engine = openLocalEngine({ file, threads: 2, timeoutMs: TIMEOUT_MS }, modules);
  const find = async (query: string) => (await engine.search({ query, maxResults: 5 }, signal)).map(({ url }) => url);
  assert.equal(engine.id, "local");
  assert.deepEqual(await find("harbour"), []);
  assert.equal((await engine.stats()).documents, 0);
  assert.equal(await engine.document("https://a.test/1"), undefined);
  const made = documentOf({
    url: "https://a.test/1",
    title: "Harbour",
    text: "Ships lie in the harbour.",
    date: "2026-01-02",
  });
  {
    using writer = openIndexWriter({ file }, modules);
    assert.deepEqual(await find("harbour"), []);
    writer.put([made]);
    assert.deepEqual(await engine.search({ query: "harbours", maxResults: 5 }, signal), [
      { title: "Harbour", url: "https://a.test/1", snippet: "Ships lie in the harbour.", date: "2026-01-02" },
    ]);
    writer.put([documentOf({ url: "https://a.test/2", text: "A harbour again." })]);
    assert.equal((await find("harbour")).length, 2);
  }
  assert.deepEqual(await engine.document(made.url), made);
  assert.equal((await engine.stats()).documents, 2);
  {
    using writer = openIndexWriter({ file: `${file}.next` }, modules);
    writer.put([documentOf({ url: "https://b.test/", text: "Another harbour." })]);
  }
  renameSync(`${file}.next`, file);
  assert.deepEqual(await find("harbour"), ["https://b.test/"]);
});

test("only addresses of the web are results", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, modules);
  writer.put(
    ["file:///etc/harbour", "javascript:alert(1)", "http://a.test/"].map((url) =>
      documentOf({ url, text: `harbour ${url}` }),
    ),
  );
  await using engine = openLocalEngine({ file, threads: 1, timeoutMs: TIMEOUT_MS }, modules);
  const hits = await engine.search({ query: "harbour", maxResults: 5 }, signal);
  assert.deepEqual(
    hits.map(({ url }) => url),
    ["http://a.test/"],
  );
});

test("a damaged index fails a search, and says why to those who ask", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  writeFileSync(file, "no index");
  await using engine = openLocalEngine({ file, threads: 1, timeoutMs: TIMEOUT_MS }, modules);
  await assert.rejects(engine.search({ query: "x", maxResults: 5 }, signal), { code: "SEARCH_ENGINE_FAILED" });
  await assert.rejects(engine.stats(), (error: { code: string; message: string }) => {
    assert.equal(error.code, "SEARCH_INDEX");
    return error.message.includes(JSON.stringify(file));
  });
});

test("the event loop goes on while the index is searched", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, modules);
  writer.put(
    Array.from({ length: 200 }, (_, n) =>
      documentOf({ url: `https://a.test/${n}`, text: `harbour ${n} `.repeat(500) }),
    ),
  );
  await using engine = openLocalEngine({ file, threads: 1, timeoutMs: TIMEOUT_MS }, modules);
  let turns = 0;
  let over = false;
  const turn = (): void => {
    turns++;
    if (!over) setImmediate(turn);
  };
  turn();
  await engine.search({ query: "harbour", maxResults: 50 }, signal);
  over = true;
  assert.ok(turns > 10, `${turns}`);
});

const ECHO = "import {parentPort} from 'node:worker_threads';";

test("a search that takes too long is given up, and its thread replaced", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const stuck = `${ECHO} parentPort.on('message', ({url}) => { if (url === 'stuck') for (;;); parentPort.postMessage({ok: true, value: url}); });`;
  await using threads = pool(stuck, {});
  const late = threads.ask(ask("stuck"));
  const behind = threads.ask(ask("behind"));
  t.mock.timers.tick(TIMEOUT_MS);
  await assert.rejects(late, { code: "SEARCH_ENGINE_FAILED", message: /in time/u });
  await assert.rejects(behind, { code: "SEARCH_ENGINE_FAILED", message: /in time/u });
  assert.equal(await threads.ask(ask("after")), "after");
});

test("a thread that cannot be ended is replaced at once, and blocks no caller", async (t) => {
  using folder = temporaryFolder();
  const pipe = join(folder.path, "pipe");
  execFileSync("mkfifo", [pipe]);
  // reading a pipe to an end that does not come blocks outside of JavaScript, as a long step of SQLite does
  const blocked = `import {readFileSync} from 'node:fs'; ${ECHO} parentPort.on('message', ({url}) => { if (url === 'blocked') readFileSync(${JSON.stringify(pipe)}, 'utf8'); parentPort.postMessage({ok: true, value: url}); });`;
  // a pipe cannot be opened to be written, without waiting, before somebody reads it
  const openPipe = (): number | undefined => {
    try {
      return openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch {
      return undefined;
    }
  };
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await using threads = pool(blocked, {});
  const late = threads.ask(ask("blocked"));
  const held = await eventually("the thread reads the pipe", openPipe);
  try {
    t.mock.timers.tick(TIMEOUT_MS);
    await assert.rejects(late, { code: "SEARCH_ENGINE_FAILED", message: /in time/u });
    assert.equal(await threads.ask(ask("after")), "after");
  } finally {
    // lets it go
    closeSync(held);
  }
});

test("a thread that is lost fails what it had, and another takes its place", async () => {
  const dies = `${ECHO} parentPort.on('message', ({url}) => { if (url === 'die') process.exit(1); parentPort.postMessage({ok: true, value: url}); });`;
  await using threads = pool(dies, {});
  for (let round = 0; round < 3; round++) {
    const dead = threads.ask(ask("die"));
    const next = threads.ask(ask("next"));
    await assert.rejects(dead, { code: "SEARCH_ENGINE_FAILED" });
    assert.equal(await next, "next");
  }
});

test("searches beyond the queue are refused, and those that are given up leave it", async () => {
  // no answer can come before all are asked: that takes one turn of the event loop
  const echo = `${ECHO} parentPort.on('message', ({url}) => parentPort.postMessage({ok: true, value: url}));`;
  await using threads = pool(echo, { maxQueued: 2 });
  const first = threads.ask(ask("first"));
  const second = threads.ask(ask("second"));
  const leaving = new AbortController();
  const left = threads.ask(ask("left"), leaving.signal);
  await assert.rejects(threads.ask(ask("much")), { code: "SEARCH_ENGINE_FAILED", message: /Too many/u });
  leaving.abort(new Error("enough"));
  await assert.rejects(left, /enough/u);
  const third = threads.ask(ask("third"));
  assert.deepEqual(await Promise.all([first, second, third]), ["first", "second", "third"]);
  await assert.rejects(threads.ask(ask("never"), leaving.signal), /enough/u);
});

test("nothing hangs when the pool ends with work in hand", async () => {
  const threads = pool(`${ECHO} parentPort.on('message', () => {});`, {});
  const running = assert.rejects(threads.ask(ask("running")), { code: "SEARCH_ENGINE_FAILED" });
  const waiting = assert.rejects(threads.ask(ask("waiting")), { code: "SEARCH_ENGINE_FAILED" });
  await threads[Symbol.asyncDispose]();
  await Promise.all([running, waiting]);
  await assert.rejects(threads.ask(ask("after")), { code: "SEARCH_ENGINE_FAILED" });
});
