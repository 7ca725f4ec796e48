import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { page, Workbench } from "../../test/crawl/site.ts";
import { serve } from "../../test/fetching/server.ts";

const PAGES = 300;
const KILLED_AT = 120;
const SCRIPT = fileURLToPath(new URL("../../test/crawl/crawl.ts", import.meta.url));

it("a site of many pages: killed with kill -9 on the way, the next run finishes and fetches nothing done again", async () => {
  using bench = new Workbench();
  let child: ChildProcess | undefined;
  let pages = 0;
  await using site = await serve((_, response, path) => {
    if (path === "/robots.txt") return response.end("User-agent: *\nDisallow:");
    const n = path === "/" ? 0 : Number(path.slice(2));
    const links = Array.from({ length: 10 }, (__, k) => n * 10 + k + 1).filter((link) => link < PAGES);
    response.setHeader("content-type", "text/html");
    if (++pages === KILLED_AT) child?.kill("SIGKILL");
    return response.end(
      page(
        `Page ${n}`,
        links.map((link) => `/p${link}`),
      ),
    );
  });
  const crawl = (): ChildProcess => spawn(process.execPath, [SCRIPT, site.origin, bench.folder]);

  child = crawl();
  const killedOutput = child.stdout === null ? "" : text(child.stdout);
  const [, signal] = await once(child, "close");
  assert.equal(signal, "SIGKILL");
  const progress = (await killedOutput).trim().split("\n");
  assert.ok(progress.length > KILLED_AT * 0.75, `${progress.length} lines of progress`);
  const before = site.asked.splice(0);
  assert.equal(before.length, KILLED_AT + 1);

  child = crawl();
  const output = child.stdout === null ? "" : await text(child.stdout);
  const after = site.asked;
  const report: unknown = JSON.parse(output.trim().split("\n").at(-1) ?? "");
  assert.deepEqual(report, {
    seen: PAGES,
    indexed: PAGES,
    unchanged: 0,
    skipped: 0,
    waiting: 0,
    removed: 0,
    reasons: {},
    incomplete: false,
    documents: PAGES,
  });
  const known = new Set(before);
  const twice = after.filter((path) => known.has(path));
  // What was under way when it was killed, and what was answered but not yet written down.
  assert.ok(twice.length <= 2, `asked for twice: ${twice.join(" ")}`);
  assert.ok(!twice.includes("/robots.txt"));
  assert.equal(new Set([...before, ...after]).size, PAGES + 1);
});
