/** Values of a statement, in the order of their placeholders. */
export class Params {
  readonly values: unknown[] = [];

  /** Takes a value; gives its placeholder. Each is used once, so that PostgreSQL may give each its own type. */
  add(value: string | number): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}

/** A name as an identifier of SQL. Names come from the catalogue or, as output names, from the client. */
export function identifierSql(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Joins conditions; empty for none. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? "" : ` WHERE ${conditions.join(" AND ")}`;
}
