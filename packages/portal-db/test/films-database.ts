import { openTestPostgres, superuserUrl } from "@turnpike/testkit/servers";
import pg from "pg";
import type { ErrorBody } from "../src/errors.ts";
import { planRequest } from "../src/sql/plan-request.ts";
import type { ColumnView, ForeignKey, Plan, RoleView, TableRequest, TableView } from "../src/types.ts";

/** The schema of these tests: films, made so that every kind of relation is there. */
const SCHEMA = `
create schema portal;
create type portal.mood as enum ('glad', 'sad');
create table portal.countries (code text primary key, name text not null);
create table portal.people (
  id serial primary key, name varchar(42) not null, country text references portal.countries, born date,
  score numeric, big bigint, tags text[] default '{new}', data jsonb, extra json, active boolean default true,
  at timestamptz default '2024-05-06T07:08:09Z', mood portal.mood, secret text, pin text);
create table portal.studios (id integer primary key, name text not null unique);
create table portal.films (
  id integer primary key, title text not null,
  director_id integer references portal.people, writer_id integer references portal.people,
  studio_id integer references portal.studios on delete cascade, words tsvector);
create table portal.details (film_id integer primary key references portal.films on delete cascade, budget numeric);
create table portal.roles (
  film_id integer references portal.films on delete cascade, person_id integer references portal.people,
  primary key (film_id, person_id));
create table portal.genres (id integer primary key, name text);
create table portal.film_genres (
  film_id integer references portal.films on delete cascade, genre_id integer references portal.genres,
  primary key (film_id, genre_id));
create table portal.folders (id integer primary key, name text, parent_id integer references portal.folders);
create table portal.vault (id integer primary key, film_id integer references portal.films on delete cascade, treasure text);
insert into portal.countries values ('fr', 'France'), ('jp', 'Japan');
insert into portal.people (id, name, country, born, score, big, tags, data, extra, active, mood, secret, pin) values
  (1, 'Agnès', 'fr', '1928-05-30', 9.50, 9007199254740993, '{a,b}', '{"a":{"b":[1,2,{"c":"x"}]},"n":null}', '{"k":"v"}',
   true, 'glad', 's1', 'p1'),
  (2, 'Akira', 'jp', '1910-03-23', 10, 1, '{b}', '{"a":{"b":[3]}}', null, false, 'sad', 's2', 'p2'),
  (3, 'Nobody, "the" \\ third', null, null, null, null, null, null, null, null, null, 's3', 'p3');
select setval('portal.people_id_seq', 100);
insert into portal.studios values (1, 'Ciné'), (2, 'Toho'), (3, 'Empty');
insert into portal.films values
  (1, 'Cléo', 1, 1, 1, to_tsvector('english', 'walking in cities')), (2, 'Ran', 2, 1, 2, null),
  (3, 'Ikiru', 2, null, 2, to_tsvector('english', 'living')), (4, 'Lost', null, null, null, null);
insert into portal.details values (1, 1.50), (2, 11000000);
insert into portal.roles values (1, 2), (1, 3), (2, 3);
insert into portal.genres values (1, 'drama'), (2, 'war');
insert into portal.film_genres values (1, 1), (2, 1), (2, 2);
insert into portal.folders values (1, 'root', null), (2, 'left', 1), (3, 'right', 1);
insert into portal.vault values (1, 1, 'gold');
do $$
begin
  -- roles are of the whole server, which other files may use at the same time
  create role films_role nologin;
exception
  when duplicate_object or unique_violation then null;
end
$$;
grant usage on schema portal to films_role;
grant usage on all sequences in schema portal to films_role;
grant select, insert, update, delete on portal.countries, portal.studios, portal.films, portal.details, portal.roles,
  portal.genres, portal.film_genres to films_role;
grant select on portal.folders to films_role;
grant delete on portal.people to films_role;
grant select (id, name, country, born, score, big, tags, data, extra, active, at, mood) on portal.people to films_role;
grant insert (id, name, country, born, score, big, tags, data, extra, active, at, mood, pin) on portal.people
  to films_role;
grant update (name, country, born, score, big, tags, data, extra, active, at, mood, pin) on portal.people to films_role;
`;

type May = ColumnView["may"];
const ALL: May = { select: true, insert: true, update: true };

function columnsOf(
  spec: Readonly<Record<string, string>>,
  special: Readonly<Record<string, May>>,
): TableView["columns"] {
  return new Map(
    Object.entries(spec).map(([name, type]) => {
      const rest = { hasDefault: false, comment: undefined, labels: undefined, maxLength: undefined };
      return [name, { name, type, isNullable: true, ...rest, may: special[name] ?? ALL }];
    }),
  );
}

function tableOf(
  name: string,
  columns: Readonly<Record<string, string>>,
  more: {
    readonly key?: readonly string[];
    readonly foreign?: readonly (readonly [column: string, table: string, far: string, isUnique?: boolean])[];
    readonly special?: Readonly<Record<string, May>>;
    readonly isReadOnly?: boolean;
  } = {},
): readonly [string, TableView] {
  const foreignKeys = (more.foreign ?? []).map(([column, table, far, isUnique]): ForeignKey => {
    const name_ = `${name}_${column}_fkey`;
    return { name: name_, columns: [column], table, tableColumns: [far], isUnique: isUnique ?? false };
  });
  const writes = more.isReadOnly !== true;
  const view: TableView = {
    name,
    comment: undefined,
    columns: columnsOf(columns, more.special ?? {}),
    primaryKey: more.key ?? ["id"],
    uniques: [],
    foreignKeys,
    may: { select: true, insert: writes, update: writes, delete: writes },
  };
  return [name, view];
}

/** What the tests' role sees: not `vault`, not `people.secret`; `people.pin` can be written and not read. */
export const FILMS_VIEW: RoleView = {
  role: "admin",
  tables: new Map([
    tableOf("countries", { code: "text", name: "text" }, { key: ["code"] }),
    tableOf(
      "people",
      {
        id: "integer",
        name: "character varying(42)",
        country: "text",
        born: "date",
        score: "numeric",
        big: "bigint",
        tags: "text[]",
        data: "jsonb",
        extra: "json",
        active: "boolean",
        at: "timestamp with time zone",
        mood: "portal.mood",
        pin: "text",
      },
      {
        foreign: [["country", "countries", "code"]],
        special: {
          id: { select: true, insert: true, update: false },
          pin: { select: false, insert: true, update: true },
        },
      },
    ),
    tableOf("studios", { id: "integer", name: "text" }),
    tableOf(
      "films",
      {
        id: "integer",
        title: "text",
        director_id: "integer",
        writer_id: "integer",
        studio_id: "integer",
        words: "tsvector",
      },
      {
        foreign: [
          ["director_id", "people", "id"],
          ["writer_id", "people", "id"],
          ["studio_id", "studios", "id"],
        ],
      },
    ),
    tableOf(
      "details",
      { film_id: "integer", budget: "numeric" },
      { key: ["film_id"], foreign: [["film_id", "films", "id", true]] },
    ),
    tableOf(
      "roles",
      { film_id: "integer", person_id: "integer" },
      {
        key: ["film_id", "person_id"],
        foreign: [
          ["film_id", "films", "id"],
          ["person_id", "people", "id"],
        ],
      },
    ),
    tableOf("genres", { id: "integer", name: "text" }),
    tableOf(
      "film_genres",
      { film_id: "integer", genre_id: "integer" },
      {
        key: ["film_id", "genre_id"],
        foreign: [
          ["film_id", "films", "id"],
          ["genre_id", "genres", "id"],
        ],
      },
    ),
    tableOf(
      "folders",
      { id: "integer", name: "text", parent_id: "integer" },
      { foreign: [["parent_id", "folders", "id"]], isReadOnly: true },
    ),
  ]),
};

/** What a request gave: an answer, a refusal of the planner, or an error of the database. */
export type Outcome =
  | {
      readonly kind: "answer";
      readonly plan: Plan;
      readonly body: string;
      readonly pageTotal: number;
      readonly affected: number | undefined;
      readonly inserted: number | undefined;
      readonly total: number | undefined;
      readonly planned: number | undefined;
    }
  | { readonly kind: "refused"; readonly error: ErrorBody }
  | { readonly kind: "failed"; readonly code: string; readonly message: string; readonly text: string };

/** A request with what most tests do not say left out. */
export type ShortRequest = Partial<Omit<TableRequest, "preferences" | "rows">> & {
  readonly table: string;
  readonly body?: unknown;
  readonly prefer?: Partial<TableRequest["preferences"]>;
};

/** The whole of a short request. */
export function requestOf(short: ShortRequest): TableRequest {
  const { body, prefer, ...rest } = short;
  const isList = Array.isArray(body);
  const list = (isList ? body : [body]) as readonly Readonly<Record<string, unknown>>[];
  return {
    verb: "GET",
    range: undefined,
    media: "json",
    stripsNulls: false,
    ...rest,
    // as it comes over HTTP: what is beyond ASCII is escaped
    query: (rest.query ?? "").replace(/[^\x20-\x7e]/gu, encodeURIComponent),
    rows: body === undefined ? undefined : { rows: list, isList },
    preferences: {
      return: undefined,
      count: undefined,
      resolution: undefined,
      missing: undefined,
      handling: undefined,
      maxAffected: undefined,
      applied: [],
      ...prefer,
    },
  };
}

/** A database with the tests' schema. */
export interface FilmsDatabase extends AsyncDisposable {
  /** Plans and runs a request under the role; keeps what it wrote only when told. */
  run(request: ShortRequest, opts?: { readonly keeps?: boolean; readonly maxRows?: number }): Promise<Outcome>;
}

const numberOf = (value: unknown): number | undefined =>
  value === null || value === undefined ? undefined : Number(value);

/** Opens a database with the tests' schema. */
export async function startFilms(): Promise<FilmsDatabase> {
  const server = await openTestPostgres();
  // A transaction's statements are sent at once: one round trip in place of five.
  const client = new pg.Client({ connectionString: superuserUrl(server.url), pipeline: true });
  await client.connect();
  await client.query(SCHEMA);
  const rowOf = async (
    statement: { text: string; values: readonly unknown[] } | undefined,
  ): Promise<Record<string, unknown>> => {
    if (statement === undefined) return {};
    const result = await client.query<Record<string, unknown>>(statement.text, [...statement.values]);
    return result.rows[0] ?? {};
  };
  return {
    run: async (short, opts = {}) => {
      const request = requestOf(short);
      const result = planRequest(request, FILMS_VIEW, { maxRows: opts.maxRows ?? 1000 });
      if (!result.ok) return { kind: "refused", error: result.error };
      const { plan } = result;
      const begun = client.query("begin; set local search_path = portal, pg_temp; set local role films_role");
      const answers = [plan.main, plan.count, plan.explain].map(rowOf);
      const ended = client.query(opts.keeps === true ? "commit" : "rollback");
      // Of the statements that follow a failed one none is run: the first error is the one.
      await Promise.allSettled([begun, ...answers, ended]);
      try {
        await begun;
        const [main = {}, count = {}, explain = {}] = [await answers[0], await answers[1], await answers[2]];
        const said = explain["QUERY PLAN"] as readonly { Plan: Record<string, unknown> }[] | undefined;
        return {
          kind: "answer",
          plan,
          body: String(main.body),
          pageTotal: Number(main.page_total),
          affected: numberOf(main.affected),
          inserted: numberOf(main.inserted),
          total: numberOf(count.total),
          planned: numberOf(said?.[0]?.Plan["Plan Rows"]),
        };
      } catch (error) {
        if (!(error instanceof pg.DatabaseError)) throw error;
        return {
          kind: "failed",
          code: error.code ?? "",
          message: `${error.message} ${JSON.stringify(error)}`,
          text: plan.main.text,
        };
      }
    },
    [Symbol.asyncDispose]: async () => {
      await client.end();
      await server[Symbol.asyncDispose]();
    },
  };
}
