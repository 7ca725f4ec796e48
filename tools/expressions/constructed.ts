import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Expression } from "./collect.ts";

/** The place that called the constructor: the first frame below the recorder's own. */
function callerOf(stack: string, root: string): string | undefined {
  const [, , , frame = ""] = stack.split("\n");
  const [address = "", row] = frame.slice(frame.indexOf("file://")).split(/:(\d+):\d+/, 2);
  return address.startsWith("file://") ? `${relative(root, fileURLToPath(address))}:${row}` : undefined;
}

/**
 * Loads files whose constructors have patterns that are not literals, and returns what these were called with. Before
 * anything else of the product is loaded: a file is loaded once.
 */
export async function constructedExpressions(paths: readonly string[], root: string): Promise<Expression[]> {
  const expressions: Expression[] = [];
  const note = ([pattern, flags]: readonly unknown[]): void => {
    const place = callerOf(new TypeError().stack ?? "", root);
    if (place === undefined || typeof pattern !== "string") return;
    expressions.push({ source: pattern, flags: typeof flags === "string" ? flags : "", place });
  };
  const builtIn = globalThis.RegExp;
  globalThis.RegExp = new Proxy(builtIn, {
    construct(target, args: ConstructorParameters<typeof RegExp>) {
      note(args);
      return new target(...args);
    },
    apply(target, _self, args: ConstructorParameters<typeof RegExp>) {
      note(args);
      return new target(...args);
    },
  });
  try {
    for (const path of paths) await import(`${root}/${path}`);
  } finally {
    globalThis.RegExp = builtIn;
  }
  return expressions;
}

function eachPattern(value: unknown, take: (pattern: string) => void): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    if (name === "pattern" && typeof member === "string") take(member);
    else eachPattern(member, take);
  }
}

/** Patterns of the schemas that requests and answers of the catalogue's services are checked against. */
export async function schemaExpressions(): Promise<Expression[]> {
  const { createCatalogue } = await import("@turnpike/catalogue");
  const expressions: Expression[] = [];
  for (const { id, operations } of createCatalogue({}).services.values()) {
    for (const { name, params, result } of operations.values()) {
      const place = `the schemas of ${id} ${name}`;
      // As ajv compiles them.
      eachPattern([params, result], (source) => expressions.push({ source, flags: "u", place }));
    }
  }
  return expressions;
}
