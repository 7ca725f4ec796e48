import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { AppError, isRecord } from "@turnpike/base";
import type { Machine } from "./machine.ts";
import { type Figure, type Report, type Row, ratioOf, type Table } from "./report.ts";

/** Form of {@link Result}: raised when a reader of the one before would misread it. */
export const RESULT_FORMAT = 1;

/** One row of a result, with its ratio. */
export interface ResultRow extends Omit<Row, "ratio"> {
  readonly ratio: number;
}

/** What one run of a benchmark found, as it is kept. */
export interface Result {
  readonly format: typeof RESULT_FORMAT;
  readonly benchmark: string;
  /** Hash of the commit that ran; with `-changed` behind it when files differed from it, `unknown` outside of a clone. */
  readonly commit: string;
  /** True: it shows that it runs, not how fast it is. */
  readonly quick: boolean;
  readonly machine: Machine;
  readonly rows: readonly ResultRow[];
  readonly tables: readonly Table[];
  readonly notes: readonly string[];
}

/** How a row's ratio has changed from one result to another. */
export interface Change {
  readonly name: string;
  /** Undefined: the row is new. */
  readonly before: number | undefined;
  /** Undefined: the row is gone. */
  readonly after: number | undefined;
  /** The later ratio over the earlier; undefined where one is missing or 0, or only one is below 0. */
  readonly factor: number | undefined;
  readonly verdict: "better" | "worse" | "same" | "new" | "gone";
}

/** Smaller changes are noise: rounds of one run lie further apart. */
const SAME_WITHIN = 0.05;
const ROOT = join(import.meta.dirname, "..", "..");
const HASH_CHARS = 12;

/** Where results are kept when no other folder is named. */
export const RESULTS_FOLDER = join(ROOT, "bench", "results");

/** The result of a report. */
export function resultOf(
  run: Pick<Result, "benchmark" | "commit" | "quick" | "machine">,
  { rows, tables = [], notes }: Report,
): Result {
  const { benchmark, commit, quick, machine } = run;
  const withRatios = rows.map((row) => ({ ...row, ratio: ratioOf(row) }));
  return { format: RESULT_FORMAT, benchmark, commit, quick, machine, rows: withRatios, tables, notes };
}

/** The text of a result's file. */
export function resultText(result: Result): string {
  return `${JSON.stringify(result, undefined, 2)}\n`;
}

function isFigure(value: unknown): value is Figure {
  return isRecord(value) && typeof value.unit === "string";
}

function isRow(value: unknown): value is ResultRow {
  return (
    isRecord(value) &&
    typeof value.name === "string" &&
    (value.ratio === null || typeof value.ratio === "number") &&
    (value.ratioOf === "ours / reference" || value.ratioOf === "reference / ours") &&
    isFigure(value.ours)
  );
}

/**
 * Reads a result's file.
 * @param name for the error
 * @throws AppError USAGE for what is no result, or one of another format
 */
export function readResult(text: string, name: string): Result {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (
    !isRecord(value) ||
    typeof value.benchmark !== "string" ||
    !Array.isArray(value.rows) ||
    !value.rows.every(isRow)
  ) {
    throw new AppError("USAGE", { message: `${name} is no result of a benchmark: save one with --save.` });
  }
  if (value.format !== RESULT_FORMAT) {
    throw new AppError("USAGE", {
      message: `${name} has format ${String(value.format)}, not ${RESULT_FORMAT}: run its commit again with --save.`,
    });
  }
  return value as unknown as Result;
}

/** True where a higher ratio is the better one. */
function isHigherBetter({ aim, ours, ratioOf: way }: Pick<ResultRow, "aim" | "ours" | "ratioOf">): boolean {
  if (aim !== undefined) return aim.op === ">=";
  const countsWork = ours.unit.startsWith("/") || ours.unit === "of 1";
  return way === "ours / reference" ? countsWork : !countsWork;
}

/** Judges a row by its earlier ratio; `same` without two numbers, as nothing can be said then. */
function verdictOf(before: number, row: ResultRow): "better" | "worse" | "same" {
  const { ratio } = row;
  // A ratio that is no number is null in a kept result.
  if (!Number.isFinite(before) || !Number.isFinite(ratio)) return "same";
  if (Math.abs(ratio - before) <= SAME_WITHIN * Math.min(Math.abs(before), Math.abs(ratio))) return "same";
  return ratio > before === isHigherBetter(row) ? "better" : "worse";
}

/** How each row's ratio has changed; in the order of the later result, with what is gone at the end. */
export function changesOf(before: Pick<Result, "rows">, after: Pick<Result, "rows">): readonly Change[] {
  const earlier = new Map(before.rows.map((row) => [row.name, row]));
  const changes = after.rows.map((row): Change => {
    const { name, ratio } = row;
    const old = earlier.get(name);
    earlier.delete(name);
    if (old === undefined) return { name, before: undefined, after: ratio, factor: undefined, verdict: "new" };
    const quotient = ratio / old.ratio;
    const factor = Number.isFinite(quotient) && quotient > 0 ? quotient : undefined;
    return { name, before: old.ratio, after: ratio, factor, verdict: verdictOf(old.ratio, row) };
  });
  for (const { name, ratio } of earlier.values()) {
    changes.push({ name, before: ratio, after: undefined, factor: undefined, verdict: "gone" });
  }
  return changes;
}

const numberText = (value: number | undefined): string =>
  value === undefined || !Number.isFinite(value) ? "–" : value.toFixed(value >= 10 ? 1 : 2);

/** The changes for people, a stable line each: `relay.single-cpu 1.18 -> 1.40 (x1.19, worse)`. */
export function changesText(before: Result, after: Result): string {
  const warnings = [
    ...(before.quick || after.quick ? ["a quick run is among them: it shows nothing of how fast it is"] : []),
    ...(before.machine.cpu === after.machine.cpu && before.machine.cores === after.machine.cores
      ? []
      : [`other machines: ${before.machine.cores} cores (${before.machine.cpu}) before`]),
    ...(before.machine.node === after.machine.node ? [] : [`another node before: ${before.machine.node}`]),
  ];
  const lines = changesOf(before, after).map(({ name, before: old, after: now, factor, verdict }) => {
    const by = factor === undefined ? verdict : `x${factor.toFixed(2)}, ${verdict}`;
    return `${name} ${numberText(old)} -> ${numberText(now)} (${by})`;
  });
  return [
    `against ${before.commit} of ${before.machine.date}`,
    ...warnings.map((warning) => `note  ${warning}`),
    ...lines,
    "",
  ].join("\n");
}

/** The name of a result's file. */
export function resultFile({ benchmark, commit }: Pick<Result, "benchmark" | "commit">): string {
  const [hash = "", ...changed] = commit.split("-");
  return `${[hash.slice(0, HASH_CHARS), ...changed].join("-")}.${benchmark}.json`;
}

async function git(...args: readonly string[]): Promise<string | undefined> {
  try {
    return (await promisify(execFile)("git", [...args], { cwd: ROOT })).stdout.trim();
  } catch {
    return undefined;
  }
}

/** The commit that runs, as {@link Result} has it. Kept results are no change of it. */
export async function readCommit(): Promise<string> {
  const hash = await git("rev-parse", "HEAD");
  if (hash === undefined) return "unknown";
  const changed = await git("status", "--porcelain", "--", ".", ":(exclude)bench/results");
  return changed === "" ? hash : `${hash}-changed`;
}

/** Writes a result's file; gives its path. */
export async function saveResult(folder: string, result: Result): Promise<string> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, resultFile(result));
  await writeFile(path, resultText(result));
  return path;
}

/**
 * The result of a file, or that of a commit in a folder, by any name that git knows it by.
 * @throws AppError USAGE when there is none, or it is of another benchmark
 */
export async function findResult(named: string, folder: string, benchmark: string): Promise<Result> {
  let path = named;
  if (!existsSync(named)) {
    const commit = (await git("rev-parse", "--verify", "--quiet", "--end-of-options", `${named}^{commit}`)) ?? named;
    path = join(folder, resultFile({ benchmark, commit }));
    if (!existsSync(path)) {
      throw new AppError("USAGE", {
        message: `There is no result of ${benchmark} for ${named}: ${path} does not exist. Run that commit with --save.`,
      });
    }
  }
  const result = readResult(await readFile(path, "utf8"), path);
  if (result.benchmark !== benchmark) {
    throw new AppError("USAGE", { message: `${path} is of ${result.benchmark}, not of ${benchmark}.` });
  }
  return result;
}
