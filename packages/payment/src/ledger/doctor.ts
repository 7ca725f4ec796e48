import { isAppError } from "@turnpike/base";
import pg from "pg";
import { withClient } from "./client.ts";
import { migrationsOf } from "./migrate.ts";
import { assertRights } from "./rights.ts";
import { quoteSchema } from "./statements.ts";

/** Something that a ledger lacks, and what to do about it. */
export interface LedgerFault {
  /** `version`: its migrations; `missing` and `different`: an object; `right`: of the role; `sequence`: it is behind its rows. */
  readonly kind: "version" | "missing" | "different" | "right" | "sequence";
  /** The object's name, or a sentence. */
  readonly what: string;
  readonly cure: string;
}

const RESTORE = "restore the backup into an empty database, ending at the first fault: docs/operate/ledger.md";

/** A cure that changes one thing and loses nothing; else the backup has to be restored again. */
function cureOf(object: string, fault: "missing" | "different", schema: string): string {
  const [, table, trigger] = /^trigger ([^.]+)\.(.+)$/.exec(object) ?? [];
  if (fault === "missing" || table === undefined || trigger === undefined) return RESTORE;
  return `if it was disabled: alter table ${quoteSchema(schema)}.${table} enable trigger ${trigger}; else ${RESTORE}`;
}

/** Number columns whose next value may be behind their rows: a restore of rows alone leaves it where it was. */
const IDENTITIES = ["payments", "events", "batches"].map((table) => ({
  table,
  column: table === "batches" ? "id" : "seq",
}));

async function sequenceFaults(client: pg.Client, schema: string): Promise<readonly LedgerFault[]> {
  const faults: LedgerFault[] = [];
  for (const { table, column } of IDENTITIES) {
    const name = `${quoteSchema(schema)}.${table}`;
    const { rows } = await client.query<{ sequence: string; behind: boolean | null }>(
      `select q.sequence, (select coalesce(max(${column}), 0) from ${name}) > coalesce(s.last_value, 0) as behind
        from (select pg_get_serial_sequence($1, $2) as sequence) q
        join pg_sequences s on q.sequence = quote_ident(s.schemaname) || '.' || quote_ident(s.sequencename)
        where has_sequence_privilege(q.sequence, 'select')`,
      [name, column],
    );
    if (rows[0]?.behind !== true) continue;
    const cure = `select setval(${pg.escapeLiteral(rows[0].sequence)}, (select max(${column}) from ${name}));`;
    faults.push({ kind: "sequence", what: `${table}.${column} would be given twice`, cure });
  }
  return faults;
}

/**
 * Compares a ledger with what its migrations make, as the role of the URL: version, objects, rights, sequences. Empty when
 * all is well. Throws AppError LEDGER_UNAVAILABLE, and CONFIG_INVALID for a schema's name that is not plain.
 */
export async function inspectLedger(
  url: string,
  opts: { readonly schema: string; readonly connectTimeoutMs?: number },
): Promise<readonly LedgerFault[]> {
  const { schema } = opts;
  const migrations = migrationsOf(schema);
  const work = async (client: pg.Client): Promise<readonly LedgerFault[]> => {
    const faults: LedgerFault[] = [];
    const attempt = async (kind: LedgerFault["kind"], check: () => Promise<void>): Promise<void> => {
      try {
        await check();
      } catch (error) {
        if (!isAppError(error, "LEDGER_SCHEMA")) throw error;
        faults.push({ kind, what: error.message, cure: error.advice ?? "run `npx turnpike db migrate`" });
      }
    };
    const checkVersion = (): Promise<void> => attempt("version", () => migrations.assertVersion(client));
    await attempt("right", () => assertRights(client, schema, checkVersion));
    // Without the migrations everything is missing.
    if (faults.some(({ kind }) => kind === "version")) return faults;
    const objects = await migrations.faults(client);
    faults.push(
      ...objects.map(({ object, fault }): LedgerFault => {
        return { kind: fault, what: object, cure: cureOf(object, fault, schema) };
      }),
    );
    return faults.length > 0 ? faults : sequenceFaults(client, schema);
  };
  return withClient(url, "doctor", work, opts.connectTimeoutMs);
}
