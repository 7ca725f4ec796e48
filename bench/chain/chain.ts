import type { Benchmark, BenchOptions } from "../lib/benchmark.ts";
import type { Report } from "../lib/report.ts";
import { appHashReport } from "./app-hash.ts";
import { blocksReport } from "./blocks.ts";
import { CRYPTO_PARTS, cryptoReport } from "./crypto.ts";
import { gasProofsReport, gasReport } from "./gas.ts";
import { nodeReport } from "./node.ts";
import { queriedReport } from "./queried.ts";
import { requestsReport } from "./requests.ts";
import { settlementReport } from "./settlement.ts";
import { suppliersReport } from "./suppliers.ts";

const PARTS: Readonly<Record<string, (options: BenchOptions) => Promise<Report>>> = {
  blocks: blocksReport,
  suppliers: suppliersReport,
  settlement: settlementReport,
  gas: gasReport,
  "gas-proofs": gasProofsReport,
  "app-hash": appHashReport,
  requests: requestsReport,
  queried: queriedReport,
  node: nodeReport,
};

async function run(options: BenchOptions): Promise<Report> {
  const { only, progress } = options;
  const wanted = (part: string): boolean => only.length === 0 || only.includes(part);
  const reports: Report[] = [];
  for (const [part, report] of Object.entries(PARTS)) {
    if (!wanted(part)) continue;
    progress(part);
    reports.push(await report(options));
  }
  if (CRYPTO_PARTS.some(wanted)) reports.push(await cryptoReport(options));
  return {
    rows: reports.flatMap(({ rows }) => rows),
    tables: reports.flatMap(({ tables }) => tables ?? []),
    notes: reports.flatMap(({ notes }) => notes),
  };
}

/** The relay protocol's chain. */
export const chainBenchmark: Benchmark = {
  what: "the relay protocol's chain: blocks, sessions, settlement, app hash, requests, blocks under queries, a whole node, tries and rings, each beside its floor",
  parts: [...Object.keys(PARTS), ...CRYPTO_PARTS],
  packages: ["secp256k1", "@noble/hashes", "lmdb"],
  run,
};
