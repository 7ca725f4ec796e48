import { statSync } from "node:fs";
import type { SourceDocument } from "@turnpike/search";
import { ownCpuMicros } from "../lib/child.ts";
import { quantile } from "../lib/stats.ts";
import { makeDocuments } from "./corpus.ts";

/** What is built, and from what. */
export interface BuildOptions {
  readonly file: string;
  readonly documents: number;
  readonly seed: number;
  /** Documents of one durable write. */
  readonly batch: number;
}

/** What building took. */
export interface Built {
  readonly elapsedMs: number;
  /** CPU time of the same. */
  readonly cpuMicros: number;
  readonly optimizeMs: number;
  readonly bytes: number;
  /** Characters of titles and texts. */
  readonly characters: number;
}

/** An index that is built. */
export interface BuildTarget {
  put(documents: readonly SourceDocument[]): void;
  optimize(): void;
}

/** Operations of a child, ours and the bare one alike. */
export type IndexOperations = {
  readonly build: (options: BuildOptions) => Promise<Built>;
  readonly open: (options: { readonly file: string; readonly threads: number }) => Promise<void>;
  readonly run: (options: RunOptions) => Promise<Ran>;
};

/** Queries, one after another from several askers. */
export interface RunOptions {
  readonly queries: readonly string[];
  readonly atOnce: number;
  readonly durationMs: number;
}

/** What came of them. */
export interface Ran {
  readonly answers: number;
  readonly elapsedMs: number;
  /** CPU time of the process meanwhile, all threads. */
  readonly cpuMicros: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Answers without a result. */
  readonly empty: number;
}

/** Builds an index; making the texts is not counted. */
export function build({ file, documents, seed, batch }: BuildOptions, target: BuildTarget): Built {
  let elapsedMs = 0;
  let cpuMicros = 0;
  let characters = 0;
  let waiting: SourceDocument[] = [];
  const flush = (): void => {
    const startedMs = performance.now();
    const cpuBefore = ownCpuMicros();
    target.put(waiting);
    cpuMicros += ownCpuMicros() - cpuBefore;
    elapsedMs += performance.now() - startedMs;
    waiting = [];
  };
  for (const document of makeDocuments(documents, seed)) {
    characters += document.title.length + document.text.length;
    if (waiting.push(document) === batch) flush();
  }
  flush();
  const startedMs = performance.now();
  target.optimize();
  return { elapsedMs, cpuMicros, optimizeMs: performance.now() - startedMs, bytes: statSync(file).size, characters };
}

/** Asks queries for a while. */
export async function runQueries(
  { queries, atOnce, durationMs }: RunOptions,
  ask: (query: string) => Promise<number>,
): Promise<Ran> {
  const times: number[] = [];
  let empty = 0;
  let next = 0;
  const startedMs = performance.now();
  const cpuBefore = ownCpuMicros();
  const work = async (): Promise<void> => {
    while (performance.now() - startedMs < durationMs) {
      const query = queries[next++ % queries.length] ?? "";
      const askedMs = performance.now();
      if ((await ask(query)) === 0) empty++;
      times.push(performance.now() - askedMs);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return {
    answers: times.length,
    elapsedMs: performance.now() - startedMs,
    cpuMicros: ownCpuMicros() - cpuBefore,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    empty,
  };
}
