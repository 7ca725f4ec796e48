import { compactJson, type ErrorCode, errorRow, indentJson, isAppError, QuotedError } from "@turnpike/base";
import { printError, printOut } from "./terminal.ts";

/** A JSON document that is being written. Disposal ends it. */
export interface OpenResult extends Disposable {
  /** Writes a further member, unless the document has ended. */
  add(key: string, value: unknown): void;
  /** The same for foreign JSON: its numbers and members are written as they were sent. */
  addJson(key: string, json: string): void;
}

/** Where a command writes. Results go to standard output, everything else to the error output. */
export interface Output {
  /** True with --json: then standard output holds JSON only, and nothing is printed for people. */
  readonly json: boolean;
  /** For people. */
  line(text: string): void;
  /** For programs: one JSON document. Integers beyond 2^53 are texts. */
  result(value: unknown): void;
  /**
   * For programs: one JSON document whose first members are `facts`, which has some. They are written at once; what is added later,
   * or never, cannot keep them back.
   */
  openResult(facts: Readonly<Record<string, unknown>>): OpenResult;
  /** Something that happens meanwhile; said on a terminal only. */
  progress(text: string): void;
}

const jsonText = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? inner.toString() : inner));

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
    openResult(facts) {
      const write = (text: string): void => {
        if (json) printOut(text);
      };
      let isEnded = false;
      write(jsonText(facts).slice(0, -1));
      const addText = (key: string, text: string): void => {
        if (!isEnded) write(`,${JSON.stringify(key)}:${text}`);
      };
      return {
        add(key, value) {
          if (value !== undefined) addText(key, jsonText(value));
        },
        addJson(key, text) {
          if (json) addText(key, compactJson(text).text);
        },
        [Symbol.dispose]() {
          if (!isEnded) write("}\n");
          isEnded = true;
        },
      };
    },
    progress(text) {
      if (!json && process.stderr.isTTY) printError(`${text}\n`);
    },
  };
}

/** JSON for people: see {@link indentJson}. */
export function prettyJson(value: unknown): string {
  return indentJson(jsonText(value));
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
  const quoted = error instanceof QuotedError && error.thirdParty !== undefined ? ` Quoted: "${error.thirdParty}"` : "";
  const message = isAppError(error)
    ? `${error.message}${quoted}`
    : `${row.message} (${error instanceof Error ? error.message : String(error)})`;
  return { code, message, advice: (isAppError(error) ? error.advice : undefined) ?? row.advice };
}

/** Exit code of a failure: 2 where the call or the configuration is wrong, 3 where a spending cap held, else 1. */
export function exitCodeOf(code: ErrorCode): number {
  if (code === "USAGE" || code === "CONFIG_INVALID") return 2;
  return code === "SPEND_CAP" || code === "BUDGET_SPENT" ? 3 : 1;
}
