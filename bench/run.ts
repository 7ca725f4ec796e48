import { parseArgs } from "node:util";
import { AppError, isAppError } from "@turnpike/base";
import { findAnvil } from "@turnpike/localnet";
import { chainBenchmark } from "./chain/chain.ts";
import { dbBenchmark } from "./db/db.ts";
import { growthBenchmark } from "./growth/growth.ts";
import type { Benchmark } from "./lib/benchmark.ts";
import { readMachine } from "./lib/machine.ts";
import { reportText } from "./lib/report.ts";
import {
  changesText,
  findResult,
  RESULTS_FOLDER,
  readCommit,
  resultOf,
  resultText,
  saveResult,
} from "./lib/results.ts";
import { paymentBenchmark } from "./payment/payment.ts";
import { relayBenchmark } from "./relay/relay.ts";
import { searchBenchmark } from "./search/search.ts";
import { signedRelayBenchmark } from "./signed-relay/signed-relay.ts";

const BENCHMARKS: Readonly<Record<string, Benchmark>> = {
  payment: paymentBenchmark,
  relay: relayBenchmark,
  growth: growthBenchmark,
  db: dbBenchmark,
  search: searchBenchmark,
  chain: chainBenchmark,
  "signed-relay": signedRelayBenchmark,
};

const HELP = `Side-by-side benchmarks. Each runs ours and a reference in one run, on one machine, and prints ratios.

  npm run bench -- <name…> [--quick] [--seconds n] [--json] [--only part,part] [--peer name=path]
                [--save] [--against file-or-commit] [--results folder]

${Object.entries(BENCHMARKS)
  .map(([name, { what, parts }]) => `  ${name.padEnd(14)}${what}\n${" ".repeat(16)}parts: ${parts.join(", ")}`)
  .join("\n")}

  --quick     fewer and shorter rounds: shows that it runs, not how fast it is
  --seconds   relay, db, search: length of each measurement, for steadier figures
  --json      the report as JSON on the standard output
  --save      keeps the report as JSON by its commit: <folder>/<commit>.<name>.json
  --against   prints how each ratio has changed since a kept report: its file, or its commit by any name of git
  --results   where reports are kept; bench/results by default
  --only      only these parts
  --peer      relay: a gateway to measure too, erpc, nodecore or proxyd, by the path of its program; may be repeated
  --help      this text

How to read it: bench/README.md.
`;

/** Reports what a benchmark measures, to the standard error in a pipe, too: with peers a run takes over ten minutes. */
function progressOf(name: string): (text: string) => void {
  const startedMs = performance.now();
  return (text) => {
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0);
    process.stderr.write(`${seconds.padStart(5)} s  ${name}: ${text}\n`);
  };
}

async function main(args: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      only: { type: "string", default: "" },
      seconds: { type: "string" },
      peer: { type: "string", multiple: true, default: [] },
      save: { type: "boolean", default: false },
      against: { type: "string" },
      results: { type: "string", default: RESULTS_FOLDER },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help || positionals.length === 0) {
    process.stdout.write(HELP);
    return;
  }
  const only = values.only.split(",").filter((part) => part !== "");
  const seconds = values.seconds === undefined ? undefined : Number(values.seconds);
  if (seconds !== undefined && !(seconds >= 0.1 && seconds <= 3_600)) {
    throw new AppError("USAGE", { message: "--seconds wants a number from 0.1 to 3600." });
  }
  const peers = Object.fromEntries(
    values.peer.map((text) => {
      const [name = "", ...path] = text.split("=");
      return [name, path.join("=")];
    }),
  );
  const chosen = positionals.map((name) => {
    const benchmark = Object.hasOwn(BENCHMARKS, name) ? BENCHMARKS[name] : undefined;
    if (benchmark !== undefined) return { name, benchmark };
    throw new AppError("USAGE", {
      message: `${name} is no benchmark; there are: ${Object.keys(BENCHMARKS).join(", ")}.`,
    });
  });
  const parts = chosen.flatMap(({ benchmark }) => benchmark.parts);
  const unknown = only.find((part) => !parts.includes(part));
  if (unknown !== undefined) {
    throw new AppError("USAGE", { message: `${unknown} is no part; there are: ${parts.join(", ")}.` });
  }
  const { quick, results, against } = values;
  for (const { name, benchmark } of chosen) {
    // Before minutes of work.
    const before = against === undefined ? undefined : await findResult(against, results, name);
    const commit = await readCommit();
    const machine = await readMachine(benchmark.packages, benchmark.usesAnvil === true ? await findAnvil() : undefined);
    const report = await benchmark.run({ quick, only, progress: progressOf(name), seconds, peers });
    const result = resultOf({ benchmark: name, commit, quick, machine }, report);
    process.stdout.write(values.json ? resultText(result) : reportText(machine, report));
    if (values.save) process.stderr.write(`saved ${await saveResult(results, result)}\n`);
    if (before !== undefined) {
      // With --json the standard output is the report alone.
      const changes = changesText(before, result);
      if (values.json) process.stderr.write(changes);
      else process.stdout.write(changes);
    }
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  const text = isAppError(error, "USAGE")
    ? error.message
    : error instanceof Error
      ? (error.stack ?? "")
      : String(error);
  process.stderr.write(`${text}\n`);
  process.exitCode = 1;
}
