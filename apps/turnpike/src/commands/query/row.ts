import type { createMessage } from "@turnpike/proto";
import type { ArgumentRow, FlagRow } from "../tx/row.ts";
import type { QueryInput } from "./input.ts";

type Schema = Parameters<typeof createMessage>[0];

/** A query that is to be asked: its path, and the fields of its request. */
export interface QueryOrder {
  /** Such as `/pocket.shared.Query/Params`. */
  readonly path: string;
  readonly fields: object;
}

/** A command that asks a query. Only types are imported here: tables are read at every start of the program. */
export interface QueryRow {
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly says: string;
  readonly args?: readonly ArgumentRow[];
  readonly flags?: readonly FlagRow[];
  /** How the flags for pages begin: `--limit`, or `--page-limit`. */
  readonly pages?: "plain" | "page";
  readonly example: string;
  /** The answer's card is shown instead of the answer. */
  readonly isCard?: true;
  ask(input: QueryInput): QueryOrder | Promise<QueryOrder>;
}

/** A module's commands. */
export interface QueryTable {
  readonly module: string;
  readonly says: string;
  /** compact: one line with all fields, as REST answers; indented: without fields that are empty. */
  readonly shape: "compact" | "indented";
  readonly rows: readonly QueryRow[];
}

/** A query with the fields of its request checked against its schema. */
export function query<M extends { readonly input: Schema }>(
  path: string,
  fields: Exclude<Parameters<typeof createMessage<M["input"]>>[1], undefined>,
): QueryOrder {
  return { path, fields: fields as object };
}

/** A command for a module's parameters. */
export function paramsRow(module: string): QueryRow {
  return {
    name: "params",
    says: "Shows the module's parameters.",
    example: "",
    ask: () => ({ path: `/pocket.${module}.Query/Params`, fields: {} }),
  };
}
