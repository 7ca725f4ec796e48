import { stringify } from "yaml";
import { printOut } from "../../cli/terminal.ts";

/** Flags of every command of `turnpike query`. */
export interface QueryFlags {
  readonly json?: boolean;
  readonly output?: "json" | "text";
  readonly node?: string;
  readonly home?: string;
  readonly height?: string;
}

/** Prints an answer's JSON: with --output text as YAML, else compact or indented. */
export function printAnswer(text: string, { json, output }: QueryFlags, indented?: () => unknown): void {
  if (json !== true && output === "text") printOut(stringify(JSON.parse(text)));
  else if (json === true || indented === undefined) printOut(`${text}\n`);
  else printOut(`${JSON.stringify(indented(), undefined, 2)}\n`);
}
