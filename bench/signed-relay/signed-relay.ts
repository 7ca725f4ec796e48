import type { Benchmark, BenchOptions } from "../lib/benchmark.ts";
import type { Report } from "../lib/report.ts";
import { cryptoReport } from "./crypto.ts";
import { difficultyReport } from "./difficulty.ts";
import { memoryReport } from "./memory.ts";
import { relaysReport } from "./relays.ts";
import { threadsReport } from "./threads.ts";

const PARTS: Readonly<Record<string, (options: BenchOptions) => Promise<Report>>> = {
  relays: (options) => relaysReport(options),
  memory: memoryReport,
  threads: threadsReport,
  difficulty: difficultyReport,
  crypto: cryptoReport,
};

async function run(options: BenchOptions): Promise<Report> {
  const reports: Report[] = [];
  for (const [part, report] of Object.entries(PARTS)) {
    if (options.only.length > 0 && !options.only.includes(part)) continue;
    options.progress(part);
    reports.push(await report(options));
  }
  return {
    rows: reports.flatMap(({ rows }) => rows),
    tables: reports.flatMap(({ tables }) => tables ?? []),
    notes: reports.flatMap(({ notes }) => notes),
  };
}

/** Relays that are signed for suppliers of the relay protocol. */
export const signedRelayBenchmark: Benchmark = {
  what: "signed relays through gateway and supplier beside two bare proxies, and their signatures beside the plain way",
  parts: Object.keys(PARTS),
  packages: ["secp256k1"],
  run,
};
