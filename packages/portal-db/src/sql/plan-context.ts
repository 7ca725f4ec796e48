import type { ParsedQuery } from "../query/ast.ts";
import type { RoleView, TableRequest } from "../types.ts";
import type { ReadNode } from "./tree.ts";

export interface PlanOptions {
  /** Most rows of a read and of each embedded list, as PostgREST's `db-max-rows`: more are cut off quietly. */
  readonly maxRows: number;
  /** Most bytes of an answer's rows as text; 64 MiB by default. Lists in lists in lists are many rows, few as each may be. */
  readonly maxAnswerBytes?: number;
  /** The schema of the tables; `portal` by default. */
  readonly schema?: string;
}

/** A request with everything that is known of it before its SQL is written. */
export interface PlanContext {
  readonly request: TableRequest;
  readonly view: RoleView;
  readonly options: PlanOptions;
  readonly schema: string;
  readonly query: ParsedQuery;
  readonly root: ReadNode;
}
