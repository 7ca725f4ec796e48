/** One step into a JSON value: `->a`, `->>0`. */
export interface JsonStep {
  readonly arrow: "->" | "->>";
  /** A member's name, or an element's index (negative counts from the end). */
  readonly operand: string | number;
}

/** A column, or something inside a JSON column. */
export interface Field {
  readonly name: string;
  readonly json: readonly JsonStep[];
}

/** One item of `select=`. */
export type SelectItem = StarItem | FieldItem | EmbedItem | AggregateItem;

/** `*`. */
export interface StarItem {
  readonly kind: "star";
}

/** `alias:column->>path::cast`. */
export interface FieldItem {
  readonly kind: "field";
  readonly alias: string | undefined;
  readonly field: Field;
  readonly cast: string | undefined;
}

/** `alias:table!hint!inner(…)`, or spread: `...table(…)`. */
export interface EmbedItem {
  readonly kind: "embed";
  readonly alias: string | undefined;
  readonly target: string;
  readonly hint: string | undefined;
  readonly join: "left" | "inner" | undefined;
  readonly isSpread: boolean;
  readonly items: readonly SelectItem[];
}

/** `column.sum()`, `count()`: read, so that it can be refused by name. */
export interface AggregateItem {
  readonly kind: "aggregate";
}

/** Operators that take one value. */
export type CompareOperator =
  | "eq"
  | "neq"
  | "gt"
  | "gte"
  | "lt"
  | "lte"
  | "like"
  | "ilike"
  | "match"
  | "imatch"
  | "cs"
  | "cd"
  | "ov"
  | "sl"
  | "sr"
  | "nxr"
  | "nxl"
  | "adj";

/** Full-text operators. */
export type TextOperator = "fts" | "plfts" | "phfts" | "wfts";

/** What `is.` takes. */
export type IsValue = "null" | "not_null" | "true" | "false" | "unknown";

/** An operator with its values. */
export type Operation =
  | {
      readonly kind: "compare";
      readonly operator: CompareOperator;
      readonly quantifier: "any" | "all" | undefined;
      readonly value: string;
    }
  | { readonly kind: "in"; readonly values: readonly string[] }
  | { readonly kind: "is"; readonly value: IsValue }
  | { readonly kind: "isdistinct"; readonly value: string }
  | {
      readonly kind: "text";
      readonly operator: TextOperator;
      readonly language: string | undefined;
      readonly value: string;
    };

/** `column=not.op.value`. */
export interface Filter {
  readonly kind: "filter";
  readonly field: Field;
  readonly isNegated: boolean;
  readonly operation: Operation;
}

/** `and(…)`, `or(…)`, `not.and(…)`. */
export interface Logic {
  readonly kind: "logic";
  readonly isNegated: boolean;
  readonly join: "and" | "or";
  readonly terms: readonly Condition[];
}

/** One condition on rows. */
export type Condition = Filter | Logic;

/** One term of `order=`; `relation` is the embedded resource of a related order. */
export interface OrderTerm {
  readonly relation: string | undefined;
  readonly field: Field;
  readonly direction: "asc" | "desc" | undefined;
  readonly nulls: "nullsfirst" | "nullslast" | undefined;
}

/** Names of embedded resources, from the root down; empty for the root. */
export type EmbedPath = readonly string[];

/** Something of the query string that belongs to one embedded resource or to the root. */
export interface AtPath<T> {
  readonly path: EmbedPath;
  readonly value: T;
}

/** A query string, read. Nothing in it is resolved: every name is only what the client wrote. */
export interface ParsedQuery {
  /** Undefined when there was no `select=`: every column. */
  readonly select: readonly SelectItem[] | undefined;
  readonly conditions: readonly AtPath<Condition>[];
  readonly orders: readonly AtPath<readonly OrderTerm[]>[];
  readonly limits: readonly AtPath<number>[];
  readonly offsets: readonly AtPath<number>[];
  readonly columns: readonly string[] | undefined;
  readonly onConflict: readonly string[] | undefined;
}
