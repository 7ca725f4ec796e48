import type { Field } from "../query/ast.ts";
import type { RoleView, TableView } from "../types.ts";
import { readableColumn } from "./names.ts";
import { identifierSql, Params } from "./params.ts";

/** What the parts of one statement share. */
export class SqlContext {
  readonly view: RoleView;
  readonly schema: string;
  /** Most rows of an embedded list. */
  readonly maxRows: number;
  readonly params = new Params();
  #aliases = 0;

  constructor(view: RoleView, schema: string, maxRows: number) {
    this.view = view;
    this.schema = schema;
    this.maxRows = maxRows;
  }

  /** A name that nothing else of this statement has. */
  alias(): string {
    this.#aliases += 1;
    return `t${this.#aliases}`;
  }

  /** A table by its full name: no other schema of a search path can stand before it. */
  tableSql(table: TableView): string {
    return `${identifierSql(this.schema)}.${identifierSql(table.name)}`;
  }
}

/** A table under an alias, and which columns of it were used. */
export class Scope {
  readonly context: SqlContext;
  readonly table: TableView;
  readonly alias: string;
  readonly used = new Set<string>();

  constructor(context: SqlContext, table: TableView, alias: string) {
    this.context = context;
    this.table = table;
    this.alias = alias;
  }

  /** A column. @throws Refusal 42703 or 42501. */
  column(name: string): string {
    readableColumn(this.context.view, this.table, name);
    this.used.add(name);
    return `${this.alias}.${identifierSql(name)}`;
  }

  /** A column or what its JSON path leads to. @throws Refusal 42703 or 42501. */
  field(field: Field): string {
    const column = this.column(field.name);
    if (field.json.length === 0) return column;
    const type = this.table.columns.get(field.name)?.type;
    const base = type === "json" || type === "jsonb" ? column : `to_jsonb(${column})`;
    const steps = field.json.map(({ arrow, operand }) => {
      const type = typeof operand === "number" ? "int" : "text";
      return `${arrow}${this.context.params.add(operand)}::${type}`;
    });
    return `(${base}${steps.join("")})`;
  }
}
