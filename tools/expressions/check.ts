import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { check, type Diagnostics } from "recheck";
import { ROOT, readPackage } from "../sources.ts";
import type { Expression } from "./collect.ts";

/** Hashes of the expressions that were found to be linear: a check of all of them takes minutes. */
export const LINEAR_FILE: string = join(ROOT, "tools/expressions/linear.json");
/** Steps bound the search for an attack, as they are the same on every machine; the time-out only ends a hang. */
const PARAMETERS = { timeout: 120_000, attackTimeout: null, incubationTimeout: null, seedingTimeout: null };

/** An expression that is not linear, or that the checker could not judge. */
export interface ExpressionFault {
  readonly expression: Expression;
  readonly why: string;
}

/** Name of an expression in the list: of another version of the checker it is another. */
export function expressionKey({ source, flags }: Pick<Expression, "source" | "flags">): string {
  const { version = "" } = readPackage("node_modules/recheck/package.json");
  return createHash("sha256")
    .update(JSON.stringify([version, source, flags]))
    .digest("hex")
    .slice(0, 32);
}

function faultOf(result: Diagnostics): string | undefined {
  if (result.status === "safe") return undefined;
  if (result.status === "vulnerable") return `${result.complexity.summary}, such as for ${result.attack.pattern}`;
  const { error } = result;
  return `not judged: ${"message" in error ? error.message : error.kind}`;
}

/** Checks the expressions that the list of linear ones does not have, or all. With `write` the list is brought up to date. */
export async function checkExpressions(
  expressions: readonly Expression[],
  { all, write, file }: { readonly all: boolean; readonly write: boolean; readonly file: string },
): Promise<ExpressionFault[]> {
  const written = existsSync(file) ? readFileSync(file, "utf8") : "[]";
  const linear = new Set(all ? [] : (JSON.parse(written) as readonly string[]));
  const faults: ExpressionFault[] = [];
  const keys: string[] = [];
  for (const expression of expressions) {
    const key = expressionKey(expression);
    keys.push(key);
    if (linear.has(key)) continue;
    const why = faultOf(await check(expression.source, expression.flags, PARAMETERS));
    if (why === undefined) linear.add(key);
    else faults.push({ expression, why });
  }
  const listed = new Set(keys.filter((key) => linear.has(key)));
  const after = `${JSON.stringify([...listed].sort(), undefined, 2)}\n`;
  if (write && after !== written) writeFileSync(file, after);
  return faults;
}
