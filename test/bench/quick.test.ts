import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { suite, test } from "node:test";
import { promisify } from "node:util";
import { GAS_CASES, REFUSED_TXS } from "../../bench/chain/gas-cases.ts";
import { readResult } from "../../bench/lib/results.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const TIMEOUT_MS = 600_000;
/** Of all together, which a busy machine takes some minutes for. */
const SUITE_TIMEOUT_MS = 1_800_000;
const MAX_OUTPUT_BYTES = 10_000_000;

/** What is run of a benchmark: parts that start each of its child processes, and rows that they must give. */
interface QuickRun {
  readonly parts: readonly string[];
  readonly rows: readonly string[];
}

const withCpu = (...names: readonly string[]): string[] => names.flatMap((name) => [name, `${name}-cpu`]);

const RUNS: Readonly<Record<string, QuickRun>> = {
  payment: {
    parts: ["answers", "verify", "settle", "gas", "latency"],
    rows: [
      ...withCpu("payment.answers", "payment.settle"),
      ...["", "-one-payer", "-http"].map((name) => `payment.verify${name}`),
      ...["settle-large", "settle-managed", "settle-documented", "gas"].map((name) => `payment.${name}`),
      ...["p50", "p95", "block"].map((name) => `payment.latency-${name}`),
    ],
  },
  relay: {
    parts: ["single", "latency", "idle"],
    rows: [...withCpu("relay.single"), "relay.latency-p50", "relay.latency-p99", "relay.idle-memory"],
  },
  // The other parts start gateways by the child of `relay`, with more of what grows.
  growth: { parts: ["workers"], rows: ["growth.workers-2-memory", "growth.workers-4-memory"] },
  db: {
    parts: ["read", "insert"],
    rows: ["read", "insert"].flatMap((name) => ["", "-pipelined", "-cpu"].map((what) => `db.${name}${what}`)),
  },
  search: {
    parts: ["build", "queries", "relevance"],
    rows: [
      ...withCpu("search.build", "search.queries"),
      ...["size", "p50", "p99", "ndcg10", "ndcg10-porter"].map((name) => `search.${name}`),
    ],
  },
  chain: {
    parts: ["requests", "queried", "gas", "node"],
    rows: [
      ...withCpu(...["rpc-status", "rpc-block", "rest-params", "rest-session"].map((name) => `chain.${name}`)),
      ...["queries", "simulations"].flatMap((name) => [
        `chain.block-${name}`,
        `chain.block-${name}-one-thread`,
        `chain.${name}-thread-cpu`,
      ]),
      ...GAS_CASES.map(({ name }) => `chain.gas-${name}`),
      ...Object.keys(REFUSED_TXS).map((name) => `chain.refused-${name}`),
      ...withCpu("chain.node-sends", "chain.node-status"),
      ...["memory", "disk", "start"].map((name) => `chain.node-${name}`),
    ],
  },
  "signed-relay": {
    parts: ["relays", "memory"],
    rows: [
      "gateway-cpu",
      "gateway-cpu-whole",
      "supplier-cpu",
      "supplier-cpu-whole",
      "per-second",
      "p50",
      "p99",
      "memory",
    ].map((name) => `signed-relay.${name}`),
  },
};

suite("benchmarks run, however fast", { concurrency: 2, timeout: SUITE_TIMEOUT_MS }, () => {
  for (const [name, { parts, rows }] of Object.entries(RUNS)) {
    test(`${name}: ${parts.join(", ")}`, { timeout: TIMEOUT_MS }, async () => {
      const args = ["bench/run.ts", name, "--quick", "--json", "--only", parts.join(",")];
      // Fails with what the benchmark wrote to its standard error.
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, maxBuffer: MAX_OUTPUT_BYTES });
      const result = readResult(stdout, name);
      assert.deepEqual(result.rows.map((row) => row.name).toSorted(), rows.toSorted());
      for (const { name: row, ours, reference } of result.rows) {
        // What is no number is null in JSON.
        assert.deepEqual([typeof ours.value, typeof reference.value], ["number", "number"], row);
      }
    });
  }
});
