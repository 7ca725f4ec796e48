import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { type Config, loadConfig } from "@turnpike/config";
import { startSearch } from "./search.ts";
import { createSourceIndex, type SourceIndex } from "./search-index.ts";

suite("the search service of a configuration", () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "turnpike-search-"));
    mkdirSync(join(folder, "docs"));
    writeFileSync(join(folder, "docs", "settle.md"), "# Settlement\n\nPayments are settled in batches on a chain.\n");
    writeFileSync(join(folder, "docs", "other.md"), "# Weather\n\nIt rains in the mountains and by the sea.\n");
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  const configOf = (search: Readonly<Record<string, unknown>> = {}): Config =>
    loadConfig({
      env: {},
      overrides: {
        localnet: true,
        search: {
          port: 0,
          metrics: { port: 0 },
          timeoutMs: 60_000,
          engines: [{ kind: "local", timeoutMs: 30_000 }],
          local: { file: join(folder, "index", "search.sqlite") },
          ...search,
        },
      },
    });
  const post = async (url: string, body: unknown): Promise<Response> =>
    fetch(`${url}/v1/search`, { method: "POST", body: JSON.stringify(body) });

  test("a long page is found by its section, once, and opens as a whole", async () => {
    mkdirSync(join(folder, "guide"));
    const filler = "Words that are about nothing much. ".repeat(20);
    const part = (name: string): string => `## ${name}\n\n${name} of the ferry. ${filler}\n`;
    const text = `# Harbour\n\n${filler}\n\n${["Tickets", "Timetable", "Luggage"].map(part).join("\n")}`;
    writeFileSync(join(folder, "guide", "harbour.md"), text);
    const config = configOf({ local: { file: join(folder, "guide-index", "search.sqlite") } });
    await using sources: SourceIndex = createSourceIndex(config, { log: silentLog });
    await using running = await startSearch(config, { log: silentLog });
    // the address is known only now: it is what the files are named by
    const { url } = running.service;
    await sources.add({ target: join(folder, "guide"), kind: "folder", baseUrl: `${url}/documents/g/` });
    const answer = await post(url, { query: "timetable of the ferry", max_results: 3 });
    const { results } = (await answer.json()) as { results: { title: string; url: string }[] };
    assert.deepEqual(
      results.map(({ title, url: found }) => [title, found]),
      [["Harbour: Timetable", `${url}/documents/g/harbour.md#timetable`]],
    );
    const whole = await (await fetch(results[0]?.url ?? "")).text();
    assert.match(whole, /^Harbour\n[\s\S]*\nTickets\n[\s\S]*\nTimetable\n[\s\S]*\nLuggage\n/);
  });

  test("before anything is indexed there are no hits; then they come without a new start, with text and metrics", async () => {
    const config = configOf({ cacheSeconds: 0, publicUrl: "https://search.example/" });
    await using running = await startSearch(config, { log: silentLog });
    const { url } = running.service;
    const none = (await (await post(url, { query: "settled payments" })).json()) as {
      results: unknown[];
      partial: boolean;
    };
    assert.deepEqual([none.results, none.partial], [[], false]);

    await using sources: SourceIndex = createSourceIndex(config, { log: silentLog });
    const { kind, report } = await sources.add({ target: join(folder, "docs"), kind: undefined, baseUrl: undefined });
    assert.deepEqual([kind, report.indexed, report.incomplete], ["folder", 2, false]);
    const again = await sources.add({ target: join(folder, "docs"), kind: "folder", baseUrl: undefined });
    assert.equal(again.report.unchanged, 2);

    const answer = await post(url, { query: "how are payments settled?", max_results: 1 });
    const { results } = (await answer.json()) as { results: { title: string; url: string; source: string }[] };
    assert.equal(results.length, 1);
    assert.equal(results[0]?.source, "local");
    const found = new URL(results[0]?.url ?? "");
    assert.equal(found.origin, "https://search.example");
    assert.match(found.pathname, /^\/documents\/docs-[0-9a-f]{8}\/settle\.md$/);
    const document = await fetch(`${url}${found.pathname}`);
    assert.equal(document.status, 200);
    assert.match(await document.text(), /settled in batches/);

    const metrics = await (await fetch(`http://127.0.0.1:${running.metricsPort}/metrics`)).text();
    assert.match(metrics, /turnpike_search_requests_total\{outcome="found"\} 1/);
    assert.match(metrics, /turnpike_search_engine_calls_total\{engine="local",outcome="ok"\} 2/);
  });

  test("an engine that cannot be reached makes answers partial, and alone it makes them 503", async () => {
    const gone = { kind: "searxng", url: "http://127.0.0.1:9/", timeoutMs: 30_000 };
    await using both = await startSearch(configOf({ engines: [{ kind: "local", timeoutMs: 30_000 }, gone] }), {
      log: silentLog,
    });
    const answer = (await (await post(both.service.url, { query: "x" })).json()) as { partial: boolean };
    assert.equal(answer.partial, true);
    await using alone = await startSearch(configOf({ engines: [gone] }), { log: silentLog });
    assert.equal((await post(alone.service.url, { query: "x" })).status, 503);
    assert.equal((await fetch(`${alone.service.url}/documents/x`)).status, 404);
  });

  test("a port that is taken is said by its path", async () => {
    await using running = await startSearch(configOf(), { log: silentLog });
    const { port } = running.service;
    await assert.rejects(startSearch(configOf({ port }), { log: silentLog }), {
      code: "PORT_IN_USE",
      message: `search.port: ${port} is in use by another program.`,
    });
  });
});
