import type { Log } from "@turnpike/base";
import type pg from "pg";
import type { ColumnView, ForeignKey, RoleView, TableView } from "../types.ts";
import { connect } from "./connect.ts";
import { askInTime, type RolePool } from "./pool.ts";
import { ROLE_NAMES } from "./roles.ts";

/** What each role may see and do. */
export type RoleViews = Readonly<Record<RoleView["role"], RoleView>>;

interface Relation {
  readonly name: string;
  readonly comment: string | null;
  readonly columns: readonly {
    readonly name: string;
    readonly type: string;
    readonly is_nullable: boolean;
    readonly has_default: boolean;
    readonly comment: string | null;
    readonly labels: readonly string[] | null;
    readonly max_length: number | null;
    readonly selects: boolean;
    readonly inserts: boolean;
    readonly updates: boolean;
  }[];
  readonly keys: readonly {
    readonly name: string;
    readonly kind: "p" | "u" | "f";
    readonly columns: readonly string[];
    readonly target: string | null;
    readonly target_columns: readonly string[] | null;
  }[];
  readonly selects: boolean;
  readonly deletes: boolean;
}

// Rights are asked for by the role's name, so the connection's own role can read them for all. `select` of a table is
// that of any column. Rights to single columns are in `may` of each column.
const READ = `
select
  c.relname as name,
  obj_description(c.oid, 'pg_class') as comment,
  has_any_column_privilege($1::name, c.oid, 'select') as selects,
  has_table_privilege($1::name, c.oid, 'delete') as deletes,
  (
    select coalesce(json_agg(json_build_object(
      'name', a.attname,
      'type', format_type(a.atttypid, a.atttypmod),
      'is_nullable', not a.attnotnull,
      'has_default', a.atthasdef or a.attidentity <> '',
      'comment', col_description(c.oid, a.attnum),
      'labels', (
        select json_agg(e.enumlabel order by e.enumsortorder) from pg_catalog.pg_enum e where e.enumtypid = a.atttypid
      ),
      'max_length',
        case when a.atttypid in ('varchar'::regtype, 'bpchar'::regtype) and a.atttypmod > 4 then a.atttypmod - 4 end,
      'selects', has_column_privilege($1::name, c.oid, a.attnum, 'select'),
      'inserts', has_column_privilege($1::name, c.oid, a.attnum, 'insert')
        and a.attgenerated = '' and a.attidentity <> 'a',
      'updates', has_column_privilege($1::name, c.oid, a.attnum, 'update')
        and a.attgenerated = '' and a.attidentity <> 'a'
    ) order by a.attnum), '[]')
    from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  ) as columns,
  (
    select coalesce(json_agg(json_build_object(
      'name', k.conname,
      'kind', k.contype,
      'columns', (
        select json_agg(a.attname order by n.place)
        from unnest(k.conkey) with ordinality n (number, place)
        join pg_catalog.pg_attribute a on a.attrelid = k.conrelid and a.attnum = n.number
      ),
      'target', t.relname,
      'target_columns', (
        select json_agg(a.attname order by n.place)
        from unnest(k.confkey) with ordinality n (number, place)
        join pg_catalog.pg_attribute a on a.attrelid = k.confrelid and a.attnum = n.number
      )
    ) order by k.conname), '[]')
    from pg_catalog.pg_constraint k
    left join pg_catalog.pg_class t on t.oid = k.confrelid and t.relnamespace = c.relnamespace
    where k.conrelid = c.oid and k.contype in ('p', 'u', 'f') and (k.contype <> 'f' or t.oid is not null)
  ) as keys
from pg_catalog.pg_class c
join pg_catalog.pg_namespace s on s.oid = c.relnamespace
where s.nspname = 'portal'
  and c.relkind in ('r', 'p', 'v', 'm')
  and has_schema_privilege($1::name, s.oid, 'usage')
  and (has_any_column_privilege($1::name, c.oid, 'select, insert, update') or has_table_privilege($1::name, c.oid, 'delete'))
order by c.relname`;

function columnViews(columns: Relation["columns"]): ReadonlyMap<string, ColumnView> {
  return new Map(
    columns
      .filter((column) => column.selects || column.inserts || column.updates)
      .map((column) => [
        column.name,
        {
          name: column.name,
          type: column.type,
          isNullable: column.is_nullable,
          hasDefault: column.has_default,
          comment: column.comment ?? undefined,
          labels: column.labels ?? undefined,
          maxLength: column.max_length ?? undefined,
          may: { select: column.selects, insert: column.inserts, update: column.updates },
        },
      ]),
  );
}

/** The role's tables; of keys only those whose columns it sees on both sides. */
function roleView(role: RoleView["role"], relations: readonly Relation[]): RoleView {
  const columnsOf = new Map(relations.map(({ name, columns }) => [name, columnViews(columns)]));
  const sees = (table: string | null, columns: readonly string[] | null): boolean => {
    const visible = table === null ? undefined : columnsOf.get(table);
    return columns?.every((column) => visible?.get(column)?.may.select === true) ?? false;
  };
  const tables = relations.map((relation): [string, TableView] => {
    const { name, keys, comment, selects, deletes } = relation;
    const columns = columnsOf.get(name) ?? new Map<string, ColumnView>();
    const uniques = keys.filter(({ kind, columns: own }) => kind !== "f" && sees(name, own));
    const isUnique = (own: readonly string[]): boolean =>
      uniques.some((unique) => unique.columns.every((column) => own.includes(column)));
    const foreignKeys = keys
      .filter((key) => key.kind === "f" && sees(name, key.columns) && sees(key.target, key.target_columns))
      .map(
        (key): ForeignKey => ({
          name: key.name,
          columns: key.columns,
          table: key.target ?? "",
          tableColumns: key.target_columns ?? [],
          isUnique: isUnique(key.columns),
        }),
      );
    const all = [...columns.values()];
    return [
      name,
      {
        name,
        comment: comment ?? undefined,
        columns,
        primaryKey: uniques.find(({ kind }) => kind === "p")?.columns ?? [],
        uniques: uniques.filter(({ kind }) => kind === "u").map((unique) => unique.columns),
        foreignKeys,
        may: {
          select: selects,
          insert: all.some(({ may }) => may.insert),
          update: all.some(({ may }) => may.update),
          delete: deletes,
        },
      },
    ];
  });
  return { role, tables: new Map(tables) };
}

const READ_TIMEOUT_MS = 10_000;

/**
 * Reads what each role may see and do from the catalogue and its grants. A role that does not exist sees nothing.
 * Throws the driver's errors, also when there is no answer in time (10 seconds by default).
 */
export async function readRoleViews(
  pool: Pick<RolePool, "connections">,
  timeoutMs: number = READ_TIMEOUT_MS,
): Promise<RoleViews> {
  const known = await askInTime<{ name: string }>(pool, timeoutMs, {
    text: "select rolname as name from pg_catalog.pg_roles where rolname = any ($1)",
    values: [Object.values(ROLE_NAMES)],
  });
  const names = new Set(known.map(({ name }) => name));
  const read = async (role: RoleView["role"]): Promise<RoleView> => {
    const name = ROLE_NAMES[role];
    if (!names.has(name)) return roleView(role, []);
    return roleView(role, await askInTime<Relation>(pool, timeoutMs, { text: READ, values: [name] }));
  };
  const [anon, reader, admin] = await Promise.all([read("anon"), read("reader"), read("admin")]);
  return { anon, reader, admin };
}

interface RoleViewsOptions {
  /** Of `portal_authenticator`; one connection of its own listens. */
  readonly url: string;
  /** Notifications this close together reload once. */
  readonly debounceMs: number;
  /** How long to wait before connecting anew after the listening connection was lost; 1,000 by default. */
  readonly reconnectMs?: number;
  /** Longest time of one statement; 10,000 by default. */
  readonly readTimeoutMs?: number;
}

/** The channel on which the database notifies of a change of tables or grants. */
const RELOAD_CHANNEL = "portal_reload";

const RECONNECT_MS = 1_000;
const NO_VIEWS: RoleViews = {
  anon: roleView("anon", []),
  reader: roleView("reader", []),
  admin: roleView("admin", []),
};

/**
 * The views of roles as the database has them: reads them anew on `NOTIFY portal_reload`. When the connection that listens is
 * lost it is made anew, and the views are read again, since a notification may have been missed.
 */
export class WatchedRoleViews implements AsyncDisposable {
  readonly #opts: RoleViewsOptions;
  readonly #pool: RolePool;
  readonly #log: Log;
  readonly #reconnectMs: number;
  #views: RoleViews = NO_VIEWS;
  #isOpen = true;
  #listener: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #connecting: Promise<void> | undefined;

  private constructor(opts: RoleViewsOptions, { pool, log }: { readonly pool: RolePool; readonly log: Log }) {
    this.#opts = opts;
    this.#pool = pool;
    this.#log = log;
    this.#reconnectMs = opts.reconnectMs ?? RECONNECT_MS;
  }

  /** Resolves once the views are read and the connection listens. Throws the driver's errors. */
  static async open(
    opts: RoleViewsOptions,
    modules: { readonly pool: RolePool; readonly log: Log },
  ): Promise<WatchedRoleViews> {
    await using owned = new AsyncDisposableStack();
    const views = owned.use(new WatchedRoleViews(opts, modules));
    // Listened to first: a change while the catalogue is read must not be missed.
    await views.#listen();
    await views.reload();
    owned.move();
    return views;
  }

  /** The views as they were read last. */
  current(): RoleViews {
    return this.#views;
  }

  /** Reads them anew. */
  async reload(): Promise<RoleViews> {
    this.#views = await readRoleViews(this.#pool, this.#opts.readTimeoutMs);
    return this.#views;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOpen = false;
    clearTimeout(this.#timer);
    await this.#connecting?.catch(() => undefined);
    const client = this.#listener;
    this.#listener = undefined;
    await client?.end().catch(() => undefined);
  }

  async #listen(): Promise<void> {
    const { url, debounceMs, readTimeoutMs = READ_TIMEOUT_MS } = this.#opts;
    const client = await connect(url, "db catalogue", readTimeoutMs);
    client.on("end", () => {
      if (this.#listener !== client) return;
      this.#listener = undefined;
      this.#later(this.#reconnectMs, () => this.#listenAgain(), "the catalogue is not listened to");
    });
    client.on("notification", () => this.#later(debounceMs, () => this.reload(), "the catalogue could not be read"));
    this.#listener = client;
    await client.query(`listen ${RELOAD_CHANNEL}`);
  }

  async #listenAgain(): Promise<void> {
    if (!this.#isOpen) return;
    if (this.#listener === undefined) {
      this.#connecting = this.#listen();
      await this.#connecting;
    }
    if (this.#isOpen) await this.reload();
  }

  /** Acts after a time, and again until it succeeds; only the newest action waits. */
  #later(delayMs: number, action: () => Promise<unknown>, failure: string): void {
    if (!this.#isOpen) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      action().catch((error: unknown) => {
        this.#log.warn({ error: String(error) }, failure);
        this.#later(this.#reconnectMs, action, failure);
      });
    }, delayMs);
  }
}
