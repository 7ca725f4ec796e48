import type { Term } from "./terms.ts";

// forms hold letters, digits and spaces only (`words.ts`); doubling the quote is FTS5's own escape, for certainty
const literal = (form: string, isPrefix: boolean): string => `"${form.replaceAll('"', '""')}"${isPrefix ? " *" : ""}`;

function groupOf({ forms, isPrefix }: Term): string {
  const all = forms.map((form) => literal(form, isPrefix));
  return all.length === 1 ? (all[0] ?? "") : `(${all.join(" OR ")})`;
}

/** An expression of FTS5 that finds all of `required`, and one of `any` where there are some. */
export function matchExpression(
  required: readonly Term[],
  any: readonly Term[],
  excluded: readonly string[],
  columns?: string,
): string {
  const parts = required.map(groupOf);
  if (any.length > 0) parts.push(`(${any.map(groupOf).join(" OR ")})`);
  const positive = parts.join(" AND ");
  const scoped = columns === undefined ? positive : `{${columns}} : (${positive})`;
  return excluded.length === 0
    ? scoped
    : `(${scoped}) NOT (${excluded.map((form) => literal(form, false)).join(" OR ")})`;
}
