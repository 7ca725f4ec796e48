import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { AppError, type ErrorCode, thrownCode } from "@turnpike/base";
import pg from "pg";
import {
  SCHEMA_OBJECTS,
  type SchemaFault,
  type SchemaObjectRow,
  type SchemaObjects,
  schemaFaults,
  schemaObjects,
} from "./schema-objects.ts";

const FILE = /^\d{4}-[a-z0-9-]+\.sql$/;
const OLDEST_SERVER = 150_000;
const LOCK_TIMEOUT_MS = 60_000;
const DENIED = "42501";
/** SQLSTATEs of a table, a type or index, and a function that exist. */
const PRESENT = new Set(["42P07", "42710", "42723"]);
/** Beside the migrations: what they make. `npm run generate` writes it. */
const SCHEMA_FILE = "schema.json";
const SHOWN_FAULTS = 5;
const RESTORE =
  "`npx turnpike db doctor` lists all. A backup that was restored in part: restore it into an empty database, with " +
  "`pg_restore --exit-on-error --no-owner` or `psql -v ON_ERROR_STOP=1`, which end at the first fault.";
const RUN_GRANT = "Give the role this right, then run `npx turnpike db migrate` again.";

/** The first faults, with the number of the others. */
function faultsText(faults: readonly SchemaFault[]): string {
  const shown = faults.slice(0, SHOWN_FAULTS).map(({ object, fault }) => `${fault}: ${object}`);
  const others = faults.length - shown.length;
  return shown.join("; ") + (others > 0 ? `; and ${others} more` : "");
}

interface Migration {
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
}

type Applied = Pick<Migration, "name" | "checksum">;

export interface MigrationsOptions {
  /** Has a file `<4 digits>-<name>.sql` for each migration; other files are ignored. */
  readonly folder: URL;
  /**
   * Plain lower-case names. The migrations run in the first one; the last one has the table `migrations`, which lists
   * what was applied.
   */
  readonly schemas: readonly [string, ...string[]];
  /** Processes that migrate under the same name wait for each other. */
  readonly lock: string;
  /** What the tables are called in errors: `The ledger's tables`. */
  readonly title: string;
  /** Of the errors about the tables' version. */
  readonly code: ErrorCode;
  /**
   * SHA-256 of earlier texts of a migration, by its file's name. A text may be replaced only when it could not run, and
   * when a later migration makes both texts' tables the same.
   */
  readonly formerChecksums?: Readonly<Record<string, readonly string[]>>;
  /** Roles whose rights the migrations grant; none by default. */
  readonly grantees?: readonly string[];
  /** Those of the grantees without whose rights a program works: an operator may narrow them. */
  readonly optionalGrantees?: readonly string[];
}

/** Rights of the connection's role, as far as a migration depends on them. */
interface Rights {
  readonly role: string;
  readonly database: string;
  readonly may_create: boolean;
  /** Schemas that are there. */
  readonly schemas: readonly string[];
  /** Schemas that are there, and in which the role may see nothing. */
  readonly unusable: readonly string[];
  /** Schemas that are there, and in which the role may create nothing. */
  readonly closed: readonly string[];
  /** Other roles that own something in the schemas, without the role being a member. */
  readonly owners: readonly string[];
}

const RIGHTS = `
  with spaces as (select oid, nspname::text as name from pg_namespace where nspname = any ($1::text[])),
  owners as (
    select relowner as owner from pg_class where relnamespace in (select oid from spaces)
    union select proowner from pg_proc where pronamespace in (select oid from spaces)
  )
  select current_user::text as role, current_database()::text as database,
    has_database_privilege(current_database(), 'create') as may_create,
    array(select name from spaces) as schemas,
    array(select name from spaces where not has_schema_privilege(oid, 'usage')) as unusable,
    array(select name from spaces where not has_schema_privilege(oid, 'create')) as closed,
    array(select pg_get_userbyid(owner)::text from owners where not pg_has_role(owner, 'usage') order by 1) as owners`;

/** The migrations of one set of tables: which were applied, and applying the others. */
export class Migrations {
  readonly #opts: MigrationsOptions;
  readonly #table: string;
  #expected: Promise<SchemaObjects> | undefined;

  constructor(opts: MigrationsOptions) {
    this.#opts = opts;
    this.#table = `"${opts.schemas.at(-1)}".migrations`;
  }

  /**
   * Runs `prepare` and applies what was not applied yet, in one transaction. Any number of processes may do it at once:
   * one works, the others wait and find nothing to do. Gives the names of what this call applied, in order.
   * @throws AppError with the code of the options when the tables are newer than the code, were made by other migrations or
   * are not whole, when the server is too old, or when the role lacks a right, with the statement that grants it; the
   * driver's errors.
   */
  async apply(client: pg.Client, prepare?: () => Promise<void>): Promise<readonly string[]> {
    const applied = await this.#migrate(client, prepare);
    await this.#assertWhole(client);
    await client.query("commit");
    return applied;
  }

  /** Definitions of what the migrations make, by {@link SCHEMA_OBJECTS}; the database stays as it is. */
  async define(client: pg.Client, prepare?: () => Promise<void>): Promise<SchemaObjects> {
    await this.#migrate(client, prepare);
    const { rows } = await client.query<SchemaObjectRow>(SCHEMA_OBJECTS, [...this.objectValues]);
    await client.query("rollback");
    return schemaObjects(rows, this.#opts.schemas[0]);
  }

  /** Applies what was not applied yet, in a transaction that stays open. */
  async #migrate(client: pg.Client, prepare?: () => Promise<void>): Promise<readonly string[]> {
    const migrations = await this.#read();
    await this.#checkServer(client);
    await client.query("begin");
    await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await client.query("set local statement_timeout = 0");
    await client.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [this.#opts.lock]);
    await prepare?.();
    const rights = await this.#rights(client);
    this.#assertOpen(rights, rights.unusable);
    const pending = this.#pending(migrations, await this.#applied(client));
    if (pending.length > 0) {
      this.#assertMayMigrate(rights);
      await this.#run(client, pending, rights);
    }
    return pending.map(({ name }) => name);
  }

  /**
   * @throws AppError with the code of the options unless exactly the migrations of this version were applied, and all that
   * they make is there: a backup may have been restored in part.
   */
  async assertApplied(client: pg.Client): Promise<void> {
    await this.assertVersion(client);
    await this.#assertWhole(client);
  }

  async #assertWhole(client: pg.Client): Promise<void> {
    const optional = (this.#opts.optionalGrantees ?? []).map((role) => `right of ${role} `);
    const all = await this.faults(client);
    const faults = all.filter(({ object }) => !optional.some((prefix) => object.startsWith(prefix)));
    if (faults.length > 0) throw this.#refuse(`${this.#opts.title} are not whole: ${faultsText(faults)}.`, RESTORE);
  }

  /** Values of {@link SCHEMA_OBJECTS} for these tables. */
  get objectValues(): readonly [readonly string[], readonly string[]] {
    return [this.#opts.schemas, this.#opts.grantees ?? []];
  }

  /** Faults of the database: what the migrations make and it does not have, or has otherwise. */
  async faults(client: Pick<pg.Client, "query">): Promise<readonly SchemaFault[]> {
    const { rows } = await client.query<SchemaObjectRow>(SCHEMA_OBJECTS, [...this.objectValues]);
    return this.faultsIn(rows);
  }

  /** As {@link faults}, of rows that the caller has read. */
  async faultsIn(rows: readonly SchemaObjectRow[]): Promise<readonly SchemaFault[]> {
    this.#expected ??= readFile(new URL(SCHEMA_FILE, this.#opts.folder), "utf8").then(
      (text): SchemaObjects => JSON.parse(text),
    );
    return schemaFaults(await this.#expected, rows, this.#opts.schemas[0]);
  }

  /** @throws AppError with the code of the options unless exactly the migrations of this version were applied. */
  async assertVersion(client: pg.Client): Promise<void> {
    const migrations = await this.#read();
    await this.#checkServer(client);
    const applied = await this.#applied(client).catch((error: unknown) => {
      // A migration grants the right to read the list: without that right, it was not applied.
      if (thrownCode(error) === DENIED) return [];
      throw error;
    });
    const pending = this.#pending(migrations, applied);
    if (pending.length > 0) {
      throw this.#refuse(`${this.#opts.title} lack ${pending.length} of ${migrations.length} migrations.`);
    }
  }

  async #read(): Promise<readonly Migration[]> {
    const { folder } = this.#opts;
    const names = (await readdir(folder)).filter((name) => FILE.test(name)).sort();
    return Promise.all(
      names.map(async (name) => {
        // A checkout with other line ends is the same migration.
        const sql = (await readFile(new URL(name, folder), "utf8")).replaceAll("\r\n", "\n");
        return { name, sql, checksum: createHash("sha256").update(sql).digest("hex") };
      }),
    );
  }

  async #checkServer(client: pg.Client): Promise<void> {
    const { rows } = await client.query<{ version: string }>("select current_setting('server_version_num') as version");
    if (!(Number(rows[0]?.version) >= OLDEST_SERVER)) {
      throw this.#refuse(`${this.#opts.title} need PostgreSQL 15 or later.`);
    }
  }

  async #applied(client: pg.Client): Promise<readonly Applied[]> {
    const found = await client.query<{ exists: boolean }>("select to_regclass($1) is not null as exists", [
      this.#table,
    ]);
    if (found.rows[0]?.exists !== true) return [];
    return (await client.query<Applied>(`select name, checksum from ${this.#table} order by name`)).rows;
  }

  async #rights(client: pg.Client): Promise<Rights> {
    const { rows } = await client.query<Rights>(RIGHTS, [this.#opts.schemas]);
    const [rights] = rows;
    if (rights === undefined) throw this.#refuse(`${this.#opts.title}: the server did not answer.`);
    return rights;
  }

  /** Checked before anything runs: after a refused statement the transaction answers no question. */
  #assertMayMigrate(rights: Rights): void {
    const { role, database, owners, closed } = rights;
    const missing = this.#opts.schemas.filter((schema) => !rights.schemas.includes(schema));
    const name = pg.escapeIdentifier(role);
    if (missing.length > 0 && !rights.may_create) {
      const grant = `grant create on database ${pg.escapeIdentifier(database)} to ${name};`;
      const message = `The role ${role} may not create the schema ${missing.join(", ")} in the database ${database}.`;
      throw this.#refuse(`${message} As the database's owner or a superuser run: ${grant}`, RUN_GRANT);
    }
    if (owners.length > 0) {
      const message = `${this.#opts.title} belong to the role ${owners.join(", ")}, and the role ${role} may not change them.`;
      throw this.#refuse(message, `Run \`npx turnpike db migrate\` with a URL of ${owners.join(", ")}.`);
    }
    this.#assertOpen(rights, closed);
  }

  #assertOpen({ role }: Rights, closed: readonly string[]): void {
    if (closed.length === 0) return;
    const name = pg.escapeIdentifier(role);
    const grants = closed.map((schema) => `grant usage, create on schema ${pg.escapeIdentifier(schema)} to ${name};`);
    const message = `The role ${role} may create nothing in the schema ${closed.join(", ")}.`;
    throw this.#refuse(`${message} As the schema's owner or a superuser run: ${grants.join(" ")}`, RUN_GRANT);
  }

  #pending(migrations: readonly Migration[], applied: readonly Applied[]): readonly Migration[] {
    const { title, formerChecksums } = this.#opts;
    for (const [index, { name, checksum }] of applied.entries()) {
      const ours = migrations[index];
      if (ours === undefined) throw this.#refuse(`${title} are newer than this version: ${name} is unknown to it.`);
      if (ours.name !== name) throw this.#refuse(`${title} have ${name} where this version has ${ours.name}.`);
      if (ours.checksum === checksum || formerChecksums?.[name]?.includes(checksum) === true) continue;
      throw this.#refuse(`${title} were made by another ${name} than this version's.`);
    }
    return migrations.slice(applied.length);
  }

  async #run(client: pg.Client, migrations: readonly Migration[], { role, schemas: present }: Rights): Promise<void> {
    const { schemas, title } = this.#opts;
    // IF NOT EXISTS would require the right to create a schema also where it is there.
    for (const schema of schemas) if (!present.includes(schema)) await client.query(`create schema "${schema}"`);
    await client.query(`set local search_path to "${schemas[0]}", pg_temp`);
    await client.query(
      `create table if not exists ${this.#table} (
        name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp()
      )`,
    );
    for (const { name, sql, checksum } of migrations) {
      try {
        await client.query(sql);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        if (thrownCode(error) === DENIED) {
          throw this.#refuse(`${title}: ${name} is refused to the role ${role}: ${error.message}.`, RUN_GRANT, error);
        }
        if (!PRESENT.has(String(thrownCode(error)))) throw error;
        const message = `${title}: ${name} makes an object that exists, and is not listed as applied: ${error.message}.`;
        throw this.#refuse(message, RESTORE, error);
      }
      await client.query(`insert into ${this.#table} (name, checksum) values ($1, $2)`, [name, checksum]);
    }
  }

  #refuse(message: string, advice?: string, cause?: unknown): AppError {
    return new AppError(this.#opts.code, { message, cause, ...(advice === undefined ? {} : { advice }) });
  }
}
