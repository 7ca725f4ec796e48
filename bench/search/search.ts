import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ndcg10, type PlainTokenizer, plainFts5, readLabelledSet } from "../../packages/search/test/local/relevance.ts";
import type { Benchmark, BenchOptions } from "../lib/benchmark.ts";
import { startChild } from "../lib/child.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { makeQueries } from "./corpus.ts";
import { meanReciprocalRank, readKnownItems } from "./known-item.ts";
import { labelledHits } from "./labelled.ts";
import type { Built, IndexOperations, Ran } from "./work.ts";

const SEED = 20_261_121;
const THREADS = 2;
const BATCH = 100;
const MEBIBYTE = 1_048_576;

function buildRows(ours: Built, bare: Built, documents: number): readonly Row[] {
  const perSecond = ({ elapsedMs }: Built): number => (documents / elapsedMs) * 1_000;
  const size = ({ bytes }: Built): number => bytes / MEBIBYTE;
  return [
    {
      name: "search.build",
      title: `documents indexed a second, ${BATCH} in a durable write`,
      ours: { value: perSecond(ours), unit: "/s" },
      reference: { value: perSecond(bare), unit: "/s" },
      ratioOf: "ours / reference",
    },
    {
      name: "search.build-cpu",
      title: "… CPU of the process for one",
      ours: { value: ours.cpuMicros / documents, unit: "µs" },
      reference: { value: bare.cpuMicros / documents, unit: "µs" },
      ratioOf: "ours / reference",
    },
    {
      name: "search.size",
      title: "size on disk, texts included",
      ours: { value: size(ours), unit: "MiB" },
      reference: { value: size(bare), unit: "MiB" },
      ratioOf: "ours / reference",
    },
  ];
}

function queryRows(rounds: readonly { readonly ours: Ran; readonly bare: Ran }[]): readonly Row[] {
  const perSecond = ({ answers, elapsedMs }: Ran): number => (answers / elapsedMs) * 1_000;
  const row = (name: string, title: string, unit: string, of: (ran: Ran) => number): Row => ({
    name,
    title,
    ours: { value: median(rounds.map(({ ours }) => of(ours))), unit },
    reference: { value: median(rounds.map(({ bare }) => of(bare))), unit },
    ratioOf: "ours / reference",
    ratio: median(rounds.map(({ ours, bare }) => of(ours) / of(bare))),
  });
  return [
    row("search.queries", `queries a second on ${THREADS} threads`, "/s", perSecond),
    row("search.queries-cpu", "… CPU of the process for one", "µs", ({ cpuMicros, answers }) => cpuMicros / answers),
    row("search.p50", "time of a query, p50", "ms", ({ p50Ms }) => p50Ms),
    row("search.p99", "time of a query, p99", "ms", ({ p99Ms }) => p99Ms),
  ];
}

/** Quality on the labelled set of the tests: a fast engine that finds nothing would win all other rows. */
function relevanceRows(folder: string): readonly Row[] {
  const set = readLabelledSet();
  const mean = (find: (query: string) => readonly string[]): number =>
    set.queries.reduce((sum, { query, grades }) => sum + ndcg10(find(query), grades), 0) / set.queries.length;
  const ours = mean(labelledHits(set, join(folder, "labelled.sqlite")));
  const row = (name: string, title: string, tokenizer: PlainTokenizer): Row => ({
    name,
    title,
    ours: { value: ours, unit: "of 1" },
    reference: { value: mean(plainFts5(set, 10, tokenizer)), unit: "of 1" },
    ratioOf: "ours / reference",
  });
  return [
    row("search.ndcg10", `nDCG@10 of ${set.queries.length} labelled queries`, "unicode61"),
    row("search.ndcg10-porter", "… to FTS5 with porter", "porter"),
  ];
}

/** The same on texts and queries that others wrote: READMEs, and the descriptions of their packages. */
function knownItemRows(folder: string): readonly Row[] {
  const items = readKnownItems();
  const set = { documents: items };
  const ours = meanReciprocalRank(items, labelledHits(set, join(folder, "known.sqlite")));
  const row = (name: string, title: string, tokenizer: PlainTokenizer): Row => ({
    name,
    title,
    ours: { value: ours, unit: "of 1" },
    reference: { value: meanReciprocalRank(items, plainFts5(set, 10, tokenizer)), unit: "of 1" },
    ratioOf: "ours / reference",
  });
  return [
    row("search.known-item", `mean of 1/rank of ${items.length} READMEs by their packages' descriptions`, "unicode61"),
    row("search.known-item-porter", "… to FTS5 with porter", "porter"),
  ];
}

async function run({ quick, only, progress, seconds }: BenchOptions): Promise<Report> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.adopt(mkdtempSync(join(tmpdir(), "turnpike-bench-")), (path) =>
    rmSync(path, { recursive: true, force: true }),
  );
  const isAsked = (part: string): boolean => only.length === 0 || only.includes(part);
  const documents = quick ? 4_000 : 100_000;
  const rows: Row[] = [];
  const notes: string[] = [];
  if (isAsked("build") || isAsked("queries")) {
    const children = join(import.meta.dirname, "children");
    const ours = owned.use(await startChild<IndexOperations>(join(children, "our-index.ts")));
    const bare = owned.use(await startChild<IndexOperations>(join(children, "bare-index.ts")));
    const [ourFile, bareFile] = [join(folder, "ours.sqlite"), join(folder, "bare.sqlite")];
    progress(`indexing ${documents} documents, ours`);
    const ourBuild = await ours.ask("build", { file: ourFile, documents, seed: SEED, batch: BATCH });
    progress(`indexing ${documents} documents, bare`);
    const bareBuild = await bare.ask("build", { file: bareFile, documents, seed: SEED, batch: BATCH });
    if (isAsked("build")) rows.push(...buildRows(ourBuild, bareBuild, documents));
    notes.push(
      `${documents} made-up documents, ${(ourBuild.characters / MEBIBYTE).toFixed(0)} MiB of text with Zipf's frequencies, seed ${SEED}; ` +
        `merging the segments afterwards took ${(ourBuild.optimizeMs / 1_000).toFixed(1)} s (ours) and ${(bareBuild.optimizeMs / 1_000).toFixed(1)} s (bare)`,
    );
    if (isAsked("queries")) {
      const queries = makeQueries(5_000, SEED);
      const roundMs = Math.round((seconds ?? (quick ? 1 : 5)) * 1_000);
      const rounds = quick ? 1 : 5;
      await ours.ask("open", { file: ourFile, threads: THREADS });
      await bare.ask("open", { file: bareFile, threads: THREADS });
      const options = { queries, atOnce: THREADS, durationMs: roundMs };
      const found: { readonly ours: Ran; readonly bare: Ran }[] = [];
      for (let round = -1; round < rounds; round++) {
        progress(`queries, round ${round + 1} of ${rounds}`);
        // alternating, so that none always has the warmer machine; the first round warms up
        const first = round % 2 === 0 ? await ours.ask("run", options) : undefined;
        const reference = await bare.ask("run", options);
        const own = first ?? (await ours.ask("run", options));
        if (round >= 0) found.push({ ours: own, bare: reference });
      }
      rows.push(...queryRows(found));
      const share = (of: (round: { ours: Ran; bare: Ran }) => Ran): string =>
        `${((found.reduce((sum, one) => sum + of(one).empty, 0) / found.reduce((sum, one) => sum + of(one).answers, 0)) * 100).toFixed(1)}%`;
      notes.push(
        `${rounds} rounds of ${roundMs} ms in turn, ${THREADS} queries under way, ten results each; without a result were ` +
          `${share((one) => one.ours)} (ours) and ${share((one) => one.bare)} (bare)`,
      );
    }
    notes.push(
      "bare is one FTS5 table with the texts in it, default tokenizer, all words first and then any of them, in bm25's order, " +
        "with FTS5's snippets, in the same threads and with the same cache and durability; words that say little are words to it",
    );
  }
  if (isAsked("relevance")) rows.push(...relevanceRows(folder));
  if (isAsked("known-item")) rows.push(...knownItemRows(folder));
  return { rows, notes };
}

/** The benchmark `search`. */
export const searchBenchmark: Benchmark = {
  what: "the local search index beside bare FTS5",
  parts: ["build", "queries", "relevance", "known-item"],
  packages: ["snowball-stemmers", "eld"],
  run,
};
