import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { AppError, type ErrorCode, thrownCode } from "@turnpike/base";
import type pg from "pg";

const FILE = /^\d{4}-[a-z0-9-]+\.sql$/;
const OLDEST_SERVER = 150_000;
const LOCK_TIMEOUT_MS = 60_000;
const DENIED = "42501";

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
}

/** The migrations of one set of tables: which were applied, and applying the others. */
export class Migrations {
  readonly #opts: MigrationsOptions;
  readonly #table: string;

  constructor(opts: MigrationsOptions) {
    this.#opts = opts;
    this.#table = `"${opts.schemas.at(-1)}".migrations`;
  }

  /**
   * Runs `prepare` and applies what was not applied yet, in one transaction. Any number of processes may do it at once:
   * one works, the others wait and find nothing to do. Gives the names of what this call applied, in order.
   * @throws AppError with the code of the options when the tables are newer than the code or were made by other
   * migrations, or when the server is too old; the driver's errors.
   */
  async apply(client: pg.Client, prepare?: () => Promise<void>): Promise<readonly string[]> {
    const migrations = await this.#read();
    await this.#checkServer(client);
    await client.query("begin");
    await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await client.query("set local statement_timeout = 0");
    await client.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [this.#opts.lock]);
    await prepare?.();
    const pending = this.#pending(migrations, await this.#applied(client));
    if (pending.length > 0) await this.#run(client, pending);
    await client.query("commit");
    return pending.map(({ name }) => name);
  }

  /** @throws AppError with the code of the options unless exactly the migrations of this version were applied. */
  async assertApplied(client: pg.Client): Promise<void> {
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

  #pending(migrations: readonly Migration[], applied: readonly Applied[]): readonly Migration[] {
    const { title } = this.#opts;
    for (const [index, { name, checksum }] of applied.entries()) {
      const ours = migrations[index];
      if (ours === undefined) throw this.#refuse(`${title} are newer than this version: ${name} is unknown to it.`);
      if (ours.name !== name) throw this.#refuse(`${title} have ${name} where this version has ${ours.name}.`);
      if (ours.checksum !== checksum) throw this.#refuse(`${title} were made by another ${name} than this version's.`);
    }
    return migrations.slice(applied.length);
  }

  async #run(client: pg.Client, migrations: readonly Migration[]): Promise<void> {
    const { schemas } = this.#opts;
    for (const schema of schemas) await client.query(`create schema if not exists "${schema}"`);
    await client.query(`set local search_path to "${schemas[0]}", pg_temp`);
    await client.query(
      `create table if not exists ${this.#table} (
        name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp()
      )`,
    );
    for (const { name, sql, checksum } of migrations) {
      await client.query(sql);
      await client.query(`insert into ${this.#table} (name, checksum) values ($1, $2)`, [name, checksum]);
    }
  }

  #refuse(message: string): AppError {
    return new AppError(this.#opts.code, { message });
  }
}
