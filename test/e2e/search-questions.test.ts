import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { localSources } from "@turnpike/devnet/up";
import type { SearchAnswer } from "@turnpike/search";
import { type RunningSearch, startSearch } from "../../apps/turnpike/src/wiring/search.ts";
import { createSourceIndex } from "../../apps/turnpike/src/wiring/search-index.ts";

/** What people ask first, in their words, and the page that answers it. */
const QUESTIONS: readonly (readonly [question: string, ...pages: string[]])[] = [
  ["how are payments settled", "docs/money.md"],
  ["what happens when the supplier fails after I paid", "docs/money.md"],
  ["rotate the signing key of the management API", "docs/manage.md"],
  ["is there a rate limit", "docs/operate/limits.md"],
  ["how do I index my own documents", "docs/operate/search.md"],
  ["websocket subscription for free", "docs/read.md"],
  ["install requirements", "README.md"],
  ["add a new blockchain network", "docs/operate/networks.md"],
  ["what does a call cost", "docs/buy.md", "docs/money.md", "README.md"],
  ["start on my laptop", "README.md"],
];

/** `docs/operate/limits.md` out of `http://127.0.0.1:1/documents/docs-0a1b2c3d/operate/limits.md#rates`. */
function pageOf(url: string): string {
  const [, folder = "", path = ""] = /\/documents\/([\w-]+)-[0-9a-f]{8}\/([^#]+)/.exec(url) ?? [];
  return folder === "docs" ? `docs/${path}` : path === "README.md" ? path : url;
}

suite("the index of turnpike up answers what people ask", () => {
  const folder = mkdtempSync(join(tmpdir(), "search-questions-"));
  let running: RunningSearch;

  before(async () => {
    const config = loadConfig({
      env: {},
      overrides: {
        localnet: true,
        search: { port: 0, publicUrl: "http://docs.example", local: { file: join(folder, "search.sqlite") } },
      },
    });
    await using index = createSourceIndex(config, { log: silentLog });
    for (const source of localSources()) await index.add({ ...source, baseUrl: undefined });
    index.optimize();
    running = await startSearch(config, { log: silentLog });
  });
  after(async () => {
    await running?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  const ask = async (query: string): Promise<SearchAnswer["results"]> => {
    const answer = await fetch(`${running.service.url}/v1/search`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query, max_results: 3 }),
    });
    return ((await answer.json()) as SearchAnswer).results;
  };

  for (const [question, ...pages] of QUESTIONS)
    test(question, async () => {
      const best = (await ask(question)).slice(0, 3).map(({ url }) => pageOf(url));
      assert.ok(
        pages.some((page) => best.includes(page)),
        best.join(", "),
      );
    });
});
