import { silentLog, systemClock } from "@turnpike/base";
import { indexSite } from "../../src/crawl/site.ts";
import { createSafeFetcher } from "../../src/fetching/fetcher.ts";
import { openIndexWriter } from "../../src/local/writer.ts";
import { PlainExtractor } from "./site.ts";

// A crawl in a process of its own, for a test that kills it: <start> <folder>.
const [start = "", folder = ""] = process.argv.slice(2);
const userAgent = "TestBot/1.0";
const bounds = { userAgent, timeoutMs: 60_000, maxBytes: 1_000_000, maxRedirects: 5, allowPrivate: true };
await using fetcher = createSafeFetcher(bounds, { clock: systemClock });
using writer = openIndexWriter({ file: `${folder}/index.sqlite` }, { log: silentLog });
const report = await indexSite(
  {
    start,
    kind: "url",
    collection: "site",
    stateFile: `${folder}/crawl.sqlite`,
    userAgent,
    maxPages: 10_000,
    maxDepth: 10,
    delayMs: 0,
    concurrency: 4,
    maxRedirects: 5,
    domains: [],
  },
  {
    writer,
    extractor: new PlainExtractor(),
    fetcher,
    clock: systemClock,
    log: silentLog,
    onProgress: ({ seen, waiting }) => process.stdout.write(`${seen} ${waiting}\n`),
  },
);
process.stdout.write(`${JSON.stringify({ ...report, documents: writer.stats().documents })}\n`);
