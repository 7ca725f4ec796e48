import { parseArgs } from "node:util";
import { AppError, isAppError } from "@turnpike/base";
import { CHAIN_PARTS } from "./chain/parts.ts";
import { type ChaosPart, figureText } from "./chaos.ts";
import { SUPPLY_PARTS } from "./supply/parts.ts";

const RUNS: Readonly<Record<string, Readonly<Record<string, ChaosPart>>>> = {
  chain: CHAIN_PARTS,
  supply: SUPPLY_PARTS,
};

const HELP = `Faults on purpose, and what they did. Ends with 1 where something that must hold did not.

  npm run chaos -- <name> [--short] [--only part,part] [--json]

${Object.entries(RUNS)
  .map(([name, parts]) => `  ${name.padEnd(10)}parts: ${Object.keys(parts).join(", ")}`)
  .join("\n")}

  --short   as npm run test:all runs it
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
  for (const [part, run] of Object.entries(parts)) {
    if (only.length > 0 && !only.includes(part)) continue;
    const began = performance.now();
    const { figures, skipped = [] } = await run({
      size: values.short ? "short" : "full",
      progress: (text) => void process.stderr.write(`${part}: ${text}\n`),
    });
    const seconds = Math.round((performance.now() - began) / 1_000);
    if (values.json) {
      process.stdout.write(`${JSON.stringify({ part, seconds, figures, skipped })}\n`);
      continue;
    }
    process.stdout.write(`${part} (${seconds} s)\n`);
    for (const figure of figures) process.stdout.write(`  ${figureText(figure)}\n`);
    for (const text of skipped) process.stdout.write(`  skipped: ${text}\n`);
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(
    `${isAppError(error, "USAGE") ? error.message : String(error instanceof Error ? error.stack : error)}\n`,
  );
  process.exitCode = 1;
}
