import type { ErrorBody } from "./errors.ts";

/** What a client asked of one table, with everything of HTTP read and nothing of the query language. */
export interface TableRequest {
  readonly verb: "GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** As it stands in the path, decoded once. */
  readonly table: string;
  /** Raw, without the question mark. */
  readonly query: string;
  /** Rows to write, as parsed JSON: one object or a list of objects. Undefined without a body. */
  readonly rows: RowsInput | undefined;
  readonly preferences: Preferences;
  /** `Range` of a GET, with `Range-Unit: items`; inclusive, `to` undefined for open. */
  readonly range: { readonly from: number; readonly to: number | undefined } | undefined;
  /** What the answer is written as. */
  readonly media: "json" | "object" | "csv";
  /** `nulls=stripped`. */
  readonly stripsNulls: boolean;
}

/** Rows of a body. `isList` is false for a single object. */
export interface RowsInput {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  readonly isList: boolean;
}

/** `Prefer`, read. Undefined where nothing was said. */
export interface Preferences {
  readonly return: "minimal" | "representation" | "headers-only" | undefined;
  readonly count: "exact" | "planned" | "estimated" | undefined;
  readonly resolution: "merge-duplicates" | "ignore-duplicates" | undefined;
  readonly missing: "default" | "null" | undefined;
  readonly handling: "strict" | "lenient" | undefined;
  readonly maxAffected: number | undefined;
  /** As echoed in `Preference-Applied`, in its order. */
  readonly applied: readonly string[];
}

/** One SQL statement; values are never part of its text. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * What is run for a request, in one transaction under the caller's role. `main` gives exactly one row:
 * `body text` (always the JSON array, or CSV; empty for HEAD and for a write that gives nothing back),
 * `page_total bigint` (rows in it; rows written when there is no body), `affected bigint | null` (rows written, of
 * writes), `inserted bigint | null` (rows that an upsert by merging made anew).
 */
export interface Plan {
  readonly main: Statement;
  /**
   * Gives one row `total bigint`; of reads with an exact count, and of estimated ones, where it stops counting at one
   * more than the most rows of an answer.
   */
  readonly count: Statement | undefined;
  /** A whole `EXPLAIN (FORMAT JSON) …`, of reads with a planned or estimated count: `"QUERY PLAN"[0].Plan."Plan Rows"`. */
  readonly explain?: Statement | undefined;
  /** Which of the two are there: `rows` is `count`, `explain` is `explain`, `both` is both. Undefined for writes. */
  readonly countBy: "rows" | "explain" | "both" | undefined;
  readonly isWrite: boolean;
  /** First row of the page. */
  readonly offset: number;
  readonly limit: number | undefined;
  /** Columns of the primary key, for `Location`. */
  readonly keyColumns: readonly string[];
}

/** A plan, or why there is none. */
export type PlanResult = { readonly ok: true; readonly plan: Plan } | { readonly ok: false; readonly error: ErrorBody };

/** What one role may see and do, read from the database's own catalogue and grants. */
export interface RoleView {
  readonly role: "anon" | "reader" | "admin";
  readonly tables: ReadonlyMap<string, TableView>;
}

/** A table as a role sees it. Columns that it may neither read nor write are not there. */
export interface TableView {
  readonly name: string;
  readonly comment: string | undefined;
  readonly columns: ReadonlyMap<string, ColumnView>;
  readonly primaryKey: readonly string[];
  readonly uniques: readonly (readonly string[])[];
  readonly foreignKeys: readonly ForeignKey[];
  readonly may: {
    readonly select: boolean;
    readonly insert: boolean;
    readonly update: boolean;
    readonly delete: boolean;
  };
}

/** A column as a role sees it. */
export interface ColumnView {
  readonly name: string;
  /** `format_type` of PostgreSQL: `character varying(42)`, `timestamp with time zone`. */
  readonly type: string;
  readonly isNullable: boolean;
  readonly hasDefault: boolean;
  readonly comment: string | undefined;
  /** Labels of an enum. */
  readonly labels: readonly string[] | undefined;
  readonly maxLength: number | undefined;
  readonly may: { readonly select: boolean; readonly insert: boolean; readonly update: boolean };
}

/** A foreign key, from the table that holds it. Its name can be the hint of an embedding. */
export interface ForeignKey {
  readonly name: string;
  readonly columns: readonly string[];
  readonly table: string;
  readonly tableColumns: readonly string[];
  /** True when `columns` are unique: the other side embeds one row, not a list. */
  readonly isUnique: boolean;
}

/** Who asks. */
export interface Caller {
  readonly role: "anon" | "reader" | "admin";
  /** Only this account's rows are in reach. */
  readonly accountId: string | undefined;
  /** Id of the token, for the audit and to take it back; undefined where no token was read. */
  readonly tokenId: string | undefined;
  /** Claims as the database's policies and audit see them (`request.jwt.claims`). */
  readonly claims: Readonly<Record<string, unknown>>;
}
