import { type ErrorCode, errorRow, isAppError } from "@turnpike/base";
import { printError, printOut } from "./terminal.ts";

/** Where a command writes. Results go to standard output, everything else to the error output. */
export interface Output {
  /** True with --json: then standard output holds JSON only, and nothing is printed for people. */
  readonly json: boolean;
  /** For people. */
  line(text: string): void;
  /** For programs: one JSON document. Integers beyond 2^53 are texts. */
  result(value: unknown): void;
  /** Something that happens meanwhile; said on a terminal only. */
  progress(text: string): void;
}

const jsonText = (value: unknown, indent?: number): string =>
  JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? inner.toString() : inner), indent);

/** Writes to this process's outputs. */
export function createOutput(json: boolean): Output {
  return {
    json,
    line(text) {
      if (!json) printOut(`${text}\n`);
    },
    result(value) {
      if (json) printOut(`${jsonText(value)}\n`);
    },
    progress(text) {
      if (!json && process.stderr.isTTY) printError(`${text}\n`);
    },
  };
}

/** Limits of indentation: each line of a deep document has the spaces of all levels above it. */
const MAX_INDENTED_LENGTH = 1_048_576;
const MAX_INDENTED_LEVELS = 64;

/** Levels of a JSON text. */
function levelsOf(json: string): number {
  let level = 0;
  let most = 0;
  let isText = false;
  for (let at = 0; at < json.length; at++) {
    const character = json[at];
    if (isText && character === "\\") at++;
    else if (character === '"') isText = !isText;
    else if (isText) continue;
    else if (character === "{" || character === "[") most = Math.max(most, ++level);
    else if (character === "}" || character === "]") level--;
  }
  return most;
}

/** JSON for people: two spaces of indentation, unless it is long or deep. */
export function prettyJson(value: unknown): string {
  const compact = jsonText(value);
  const isLarge = compact.length > MAX_INDENTED_LENGTH || levelsOf(compact) > MAX_INDENTED_LEVELS;
  return isLarge ? compact : jsonText(value, 2);
}

/** What a fault says to the user. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly advice: string;
}

/** Code, sentence and advice of whatever was thrown. A fault of ours says no more than that. */
export function failureOf(error: unknown): Failure {
  const code = isAppError(error) ? error.code : "INTERNAL";
  const row = errorRow(code);
  const message = isAppError(error)
    ? error.message
    : `${row.message} (${error instanceof Error ? error.message : String(error)})`;
  return { code, message, advice: (isAppError(error) ? error.advice : undefined) ?? row.advice };
}

/** Exit code of a failure: 2 where the call or the configuration is wrong, 3 where a spending cap held, else 1. */
export function exitCodeOf(code: ErrorCode): number {
  if (code === "USAGE" || code === "CONFIG_INVALID") return 2;
  return code === "SPEND_CAP" || code === "BUDGET_SPENT" ? 3 : 1;
}
