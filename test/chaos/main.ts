import { parseArgs } from "node:util";
import { AppError, isAppError } from "@turnpike/base";
import { BUYER_PARTS } from "./buyer/parts.ts";
import { CHAIN_PARTS } from "./chain/parts.ts";
import { type ChaosPart, figureTable } from "./chaos.ts";
import { FLOOD_PARTS } from "./flood/parts.ts";
import { HTTP_PARTS } from "./http/parts.ts";
import { PAYMENT_PARTS } from "./payment/parts.ts";
import { SUPPLY_PARTS } from "./supply/parts.ts";

const RUNS: Readonly<Record<string, Readonly<Record<string, ChaosPart>>>> = {
  buyer: BUYER_PARTS,
  chain: CHAIN_PARTS,
  flood: FLOOD_PARTS,
  http: HTTP_PARTS,
  payment: PAYMENT_PARTS,
  supply: SUPPLY_PARTS,
};

const MOST_SECONDS = 86_400;

const HELP = `Faults on purpose, and what they did. Ends with 1 where something that must hold did not.

  npm run chaos -- <name> [--short] [--seconds n] [--only part,part] [--json]

${Object.entries(RUNS)
  .map(([name, parts]) => `  ${name.padEnd(10)}parts: ${Object.keys(parts).join(", ")}`)
  .join("\n")}

  --short   as npm run test:all runs it (http: fewer requests)
  --seconds how long a part goes on that goes on for a time: of payment, attack
  --only    only these parts
  --json    the figures as JSON on the standard output, a line for each part
  --help    this text
`;

async function main(args: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      short: { type: "boolean", default: false },
      seconds: { type: "string" },
      only: { type: "string", default: "" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const [name] = positionals;
  if (values.help || name === undefined) {
    process.stdout.write(HELP);
    return;
  }
  const parts = Object.hasOwn(RUNS, name) ? RUNS[name] : undefined;
  if (parts === undefined) {
    throw new AppError("USAGE", { message: `${name} is no run; there are: ${Object.keys(RUNS).join(", ")}.` });
  }
  const only = values.only.split(",").filter((part) => part !== "");
  const unknown = only.find((part) => !Object.hasOwn(parts, part));
  if (unknown !== undefined) {
    throw new AppError("USAGE", { message: `${unknown} is no part; there are: ${Object.keys(parts).join(", ")}.` });
  }
  const seconds = values.seconds === undefined ? undefined : Number(values.seconds);
  if (seconds !== undefined && !(seconds >= 1 && seconds <= MOST_SECONDS)) {
    throw new AppError("USAGE", { message: `--seconds is a number from 1 to ${MOST_SECONDS}.` });
  }
  for (const [part, run] of Object.entries(parts)) {
    if (only.length > 0 && !only.includes(part)) continue;
    const began = performance.now();
    const {
      figures,
      skipped = [],
      faults = [],
    } = await run({
      size: values.short ? "short" : "full",
      ...(seconds === undefined ? {} : { seconds }),
      progress: (text) => void process.stderr.write(`${part}: ${text}\n`),
    });
    const tookSeconds = Math.round((performance.now() - began) / 1_000);
    if (faults.length > 0) process.exitCode = 1;
    if (values.json) {
      process.stdout.write(`${JSON.stringify({ part, seconds: tookSeconds, figures, skipped, faults })}\n`);
      continue;
    }
    process.stdout.write(`${part} (${tookSeconds} s)\n`);
    for (const line of figureTable(figures)) process.stdout.write(`  ${line}\n`);
    for (const text of skipped) process.stdout.write(`  skipped: ${text}\n`);
    for (const text of faults) process.stdout.write(`  FAULT: ${text}\n`);
  }
}

// A signal alone would leave behind the servers that end with this process.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(
    `${isAppError(error, "USAGE") ? error.message : String(error instanceof Error ? error.stack : error)}\n`,
  );
  process.exitCode = 1;
}
