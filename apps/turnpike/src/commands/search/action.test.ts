import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, suite, test } from "node:test";
import { COMMAND_FILE, type Ran, runInProcess, runSpawned } from "../../../test/run-command.ts";

suite("turnpike search index, as a user calls it", () => {
  let folder: string;
  const startFolder = process.cwd();
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "turnpike-search-cli-"));
    mkdirSync(join(folder, "docs"));
    writeFileSync(join(folder, "docs", "one.md"), "# Settlement\n\nPayments are settled in batches on a chain.\n");
    const sources = ["none", "docs"].map((target) => ({ kind: "folder", target: join(folder, target) }));
    writeFileSync(join(folder, "turnpike.yaml"), JSON.stringify({ search: { local: { sources } } }));
    process.chdir(folder);
  });
  after(() => {
    process.chdir(startFolder);
    rmSync(folder, { recursive: true, force: true });
  });

  const run = (...args: readonly string[]): Promise<Ran> => runInProcess(["search", ...args]);

  test("a source that is not there does not keep the others out, and the command says so", async () => {
    const said = await run("index");
    assert.equal(said.code, 1);
    assert.match(said.out, /docs {2}\(folder\) {2}1 seen, 1 indexed/);
    assert.match(said.err, /^error SOURCE_REFUSED: There is no folder .*none\.\n/);
    const { code, out, err } = await run("index", "--json");
    const result = JSON.parse(out);
    assert.deepEqual([code, err], [1, ""]);
    assert.deepEqual([result.sources.length, result.sources[0].unchanged], [1, 1]);
    assert.deepEqual(result.refused, [
      { target: join(folder, "none"), message: `There is no folder ${join(folder, "none")}.` },
    ]);
  });

  test("in a pipe it writes what it did and nothing else; wrong calls are refused before anything is made", async () => {
    const { code, out, err } = await runSpawned(["search", "index", "docs"], { cwd: folder });
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^docs {2}\(folder\) {2}1 seen, [^\n]*\nThe index holds 1 documents \([\d.]+ KiB\)\.\n$/);
    const wrong = await run("index", "docs", "--kind", "wiki");
    assert.deepEqual([wrong.code, wrong.out], [2, ""]);
    assert.match(wrong.err, /^error USAGE: --kind: expected one of folder, /);
    const refused = await run("index", "docs/none.md");
    assert.equal(refused.code, 1);
    assert.match(refused.err, /^error SOURCE_REFUSED: docs\/none\.md is neither a folder/);
  });

  test("a site of which nothing can be had ends it with 1, and says why", async () => {
    const nobody = createServer().listen(0, "127.0.0.1");
    await once(nobody, "listening");
    const { port } = nobody.address() as AddressInfo;
    nobody.close();
    await once(nobody, "close");
    const { code, out } = await run("index", `http://127.0.0.1:${port}/`);
    assert.equal(code, 1);
    assert.match(
      out,
      /1 seen, 0 indexed, 0 unchanged, 1 left out\n {2}left out: connect 1\n {2}nothing of it could be read\n/,
    );
  });

  test("SIGINT half-way ends it with 1; the next run goes on and asks for nothing twice", async () => {
    const asked: string[] = [];
    const third = Promise.withResolvers<void>();
    let isFirst = true;
    const site = createServer((request, response) => {
      const path = request.url ?? "";
      asked.push(path);
      // What it waits for when it is ended.
      if (isFirst && asked.filter((one) => one.startsWith("/p")).length === 3) return third.resolve();
      if (path === "/robots.txt") return response.writeHead(404).end();
      response.setHeader("content-type", "text/html");
      const links = path === "/" ? Array.from({ length: 8 }, (_, n) => `<a href="/p${n}">${n}</a>`).join("") : "";
      return response.end(
        `<title>Page ${path}</title><p>Words of page ${path}, enough of them to be read.</p>${links}`,
      );
    }).listen(0, "127.0.0.1");
    await once(site, "listening");
    const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/`;
    const crawl = { delayMs: 1 };
    writeFileSync(join(folder, "crawl.yaml"), JSON.stringify({ search: { crawl, local: { file: "crawl.sqlite" } } }));
    const args = ["index", url, "--kind", "url", "--config", "crawl.yaml", "--json"];
    const first = spawn(process.execPath, [COMMAND_FILE, "search", ...args], { cwd: folder, env: {}, stdio: "pipe" });
    const ended = Promise.all([once(first, "close"), text(first.stdout)]);
    await third.promise;
    first.kill("SIGINT");
    const [[firstCode], said] = await ended;
    const half = JSON.parse(said);
    assert.deepEqual([firstCode, half.ended, half.sources[0].incomplete], [1, true, true]);
    isFirst = false;
    const before = asked.splice(0);
    const { code, out } = await run(...args);
    assert.equal(code, 0);
    assert.deepEqual([JSON.parse(out).sources[0].seen, JSON.parse(out).index.documents], [9, 9]);
    // What was under way when it was ended is asked for again.
    assert.ok(asked.filter((path) => before.includes(path)).length <= 1, asked.join(" "));
    site.close();
    site.closeAllConnections();
  });
});
