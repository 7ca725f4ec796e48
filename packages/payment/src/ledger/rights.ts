import { AppError } from "@turnpike/base";
import pg from "pg";
import { quoteSchema } from "./statements.ts";

/** What a process that has the ledger open does with each table and view, in the names of GRANT. */
export const TABLE_RIGHTS: Readonly<Record<string, readonly string[]>> = {
  migrations: ["SELECT"],
  payments: ["SELECT", "INSERT", "UPDATE"],
  events: ["SELECT", "INSERT"],
  answers: ["SELECT", "INSERT", "UPDATE", "DELETE"],
  batches: ["SELECT", "INSERT", "UPDATE"],
  transactions: ["SELECT", "INSERT"],
  relayers: ["SELECT", "INSERT", "UPDATE"],
  holders: ["SELECT", "INSERT", "UPDATE", "DELETE"],
  former_ids: ["SELECT", "INSERT"],
  open_results: ["SELECT", "INSERT", "UPDATE"],
  settlement_budgets: ["SELECT"],
  wallet_risks: ["SELECT"],
  wallet_runs: ["SELECT"],
  books: ["SELECT"],
};

interface Lacking {
  /** As GRANT names it, after ON. */
  readonly object: string;
  /** For the message. */
  readonly name: string;
  readonly rights: readonly string[];
}

/** What the connection's role lacks of what a ledger does; nothing where there are no tables yet. */
async function lackingOf(client: pg.Client, schema: string): Promise<readonly Lacking[]> {
  const quoted = quoteSchema(schema);
  const usage = await client.query<{ may: boolean }>(
    "select coalesce(bool_and(has_schema_privilege(oid, 'usage')), true) as may from pg_namespace where nspname = $1",
    [schema],
  );
  const wanted = Object.entries(TABLE_RIGHTS).flatMap(([table, rights]) => rights.map((right) => ({ table, right })));
  // A right to some columns counts: which ones are needed is not looked at.
  const tables = await client.query<{ table: string; rights: string[] }>(
    `select w.name as table, array_agg(w.wanted order by w.place) as rights
      from unnest($2::text[], $3::text[]) with ordinality w (name, wanted, place)
      join pg_class c on c.relname = w.name and c.relnamespace = (select oid from pg_namespace where nspname = $1)
      where not case when w.wanted = 'DELETE' then has_table_privilege(c.oid, w.wanted)
        else has_any_column_privilege(c.oid, w.wanted) end
      group by w.name order by min(w.place)`,
    [schema, wanted.map(({ table }) => table), wanted.map(({ right }) => right)],
  );
  const functions = await client.query<{ names: string[] | null }>(
    `select array_agg(distinct p.proname::text) as names from pg_proc p
      where p.pronamespace = (select oid from pg_namespace where nspname = $1)
        and p.prorettype <> 'trigger'::regtype and not has_function_privilege(p.oid, 'execute')`,
    [schema],
  );
  const names = functions.rows[0]?.names ?? [];
  return [
    ...(usage.rows[0]?.may === true
      ? []
      : [{ object: `schema ${quoted}`, name: `the schema ${schema}`, rights: ["USAGE"] }]),
    ...tables.rows.map(({ table, rights }) => ({ object: `${quoted}.${table}`, name: table, rights })),
    ...(names.length === 0
      ? []
      : [{ object: `all functions in schema ${quoted}`, name: functionsText(names.toSorted()), rights: ["EXECUTE"] }]),
  ];
}

function functionsText(names: readonly string[]): string {
  const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
  return `the functions ${names.slice(0, 3).join(", ")}${more}`;
}

/**
 * Holds that the connection's role may do all that a ledger does: a right that is missing would fail the first payment
 * that needs it. `checkTables` runs as soon as the role may read what migrations were applied.
 * @throws AppError LEDGER_SCHEMA that names what is missing and the grants to run, and what `checkTables` throws.
 */
export async function assertRights(client: pg.Client, schema: string, checkTables: () => Promise<void>): Promise<void> {
  const lacking = await lackingOf(client, schema);
  const isReadable = lacking.every(({ name, rights }) => name !== "migrations" && !rights.includes("USAGE"));
  if (isReadable) await checkTables();
  if (lacking.length === 0) return;
  const { rows } = await client.query<{ role: string }>("select current_user as role");
  const role = rows[0]?.role ?? "";
  const missing = lacking.map(({ name, rights }) => `${rights.join(", ")} on ${name}`).join("; ");
  const grants = lacking.map(
    ({ object, rights }) => `grant ${rights.join(", ").toLowerCase()} on ${object} to ${pg.escapeIdentifier(role)};`,
  );
  throw new AppError("LEDGER_SCHEMA", {
    message: `The ledger's role ${role} may not ${missing}. As the owner of the tables run: ${grants.join(" ")}`,
    advice:
      "Run the grants above. After each `npx turnpike db migrate` there may be new tables: docs/operate/ledger.md.",
  });
}
