import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { FILMS_VIEW, type Outcome, startFilms } from "../../test/films-database.ts";
import * as arbitrary from "../../test/query-arbitraries.ts";
import { relationsFrom } from "./relations.ts";

const QUERIES = 10_000;

const TABLES = ["films", "people", "studios", "details", "genres", "folders", "roles", "countries"] as const;
const HOSTILE = ["pin", "secret", "nope", "__proto__", "ctid", "xmin", "films", 'x"; drop table films; --'];

const names = new Map<string, arbitrary.Names>();
/** Mostly what fits the table, so that most queries reach the database; now and then what does not. */
function namesOf(name: string): arbitrary.Names {
  const known = names.get(name) ?? makeNames(name);
  names.set(name, known);
  return known;
}

function makeNames(name: string): arbitrary.Names {
  const table = FILMS_VIEW.tables.get(name);
  if (table === undefined) return { columns: ["id"], tables: ["films"], hints: ["id"] };
  const relations = relationsFrom(FILMS_VIEW, table);
  const readable = [...table.columns.values()].filter((column) => column.may.select).map((column) => column.name);
  const columns = Array.from({ length: 120 }, () => readable).flat();
  const constraints = relations.map((relation) => relation.junction?.table.name ?? relation.constraint);
  const clear = relations.filter((one) => relations.filter((other) => other.to === one.to).length === 1);
  const related = clear.flatMap(({ to }) => Array<string>(30).fill(to.name));
  return {
    columns: [...columns, ...HOSTILE],
    tables: [...related, ...relations.map(({ to, constraint }) => (clear.length > 0 ? constraint : to.name)), "vault"],
    hints: [...constraints, ...constraints, ...constraints, "id", "vault_film_id_fkey"],
    within: (target) => namesOf(target),
  };
}

/** Bodies that fit the table. */
function ownBodies(name: string): object[] {
  const [key = "id", other = key] = FILMS_VIEW.tables.get(name)?.columns.keys() ?? [];
  return [1, 2, 77].flatMap((id) => [{ [other]: `${id}` }, { [key]: id, [other]: `${id}` }]);
}

/** Names that only the schema knows. */
const HIDDEN = ["secret", "treasure", "vault"];
/** Classes that are the server's fault: connection, state, resources, limits, intervention, system, internal. */
const FAULTS = /^(08|25|40|53|54|55|57|58|XX|0A)/;

test(`${QUERIES} queries: no bad SQL, no fault, no hidden name`, async () => {
  await using films = await startFilms();
  const resolutions = [undefined, "merge-duplicates", "ignore-duplicates"] as const;
  const paths = [...Array<string>(80).fill(""), "films.", "studios.", "e."];
  const request = fc.constantFrom(...TABLES).chain((table) =>
    fc.record({
      verb: fc.constantFrom(
        "GET" as const,
        "GET" as const,
        "GET" as const,
        "HEAD" as const,
        "PATCH" as const,
        "DELETE" as const,
        "POST" as const,
      ),
      table: fc.constant(table),
      media: fc.constantFrom("json" as const, "csv" as const),
      select: fc.option(arbitrary.select(namesOf(table))),
      conditions: fc.array(fc.tuple(fc.constantFrom(...paths), arbitrary.condition(namesOf(table))), { maxLength: 2 }),
      onConflict: fc.option(fc.constantFrom("id", "name", "id,name", "film_id,person_id", "secret", "nope")),
      resolution: fc.constantFrom(...resolutions),
      missing: fc.constantFrom(undefined, "default" as const),
      order: fc.option(arbitrary.order(namesOf(table))),
      body: fc.constantFrom<object[]>(
        ...ownBodies(table),
        { name: "x" },
        { title: "x" },
        { id: 1, name: null },
        {},
        { budget: "1" },
        { pin: 1 },
        { id: 1, name: "x", nope: 1 },
        { film_id: 1, person_id: 1 },
        { id: 1, title: "x", studio_id: 7 },
      ),
    }),
  );
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(request, async ({ select, conditions, order, body, onConflict, resolution, missing, ...rest }) => {
      const pairs = conditions.map(([path, one]) => {
        const [key, text] = arbitrary.conditionPair(one);
        return [path + key, text] as const;
      });
      if (select !== null) pairs.push(["select", arbitrary.selectText(select)]);
      if (order !== null) pairs.push(["order", arbitrary.orderText(order)]);
      if (onConflict !== null) pairs.push(["on_conflict", onConflict]);
      const query = arbitrary.queryText(pairs);
      const prefer = { return: "representation", count: "exact", resolution, missing } as const;
      const outcome = await films.run({
        ...rest,
        query,
        body: rest.verb === "PATCH" || rest.verb === "POST" ? body : undefined,
        prefer,
      });
      const kind =
        outcome.kind === "refused" ? outcome.error.code : outcome.kind === "failed" ? outcome.code : "answer";
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
      check(outcome, decodeURIComponent(query));
    }),
    { numRuns: QUERIES },
  );
  // a fuzz whose queries are all refused would see nothing
  assert.ok((seen.get("answer") ?? 0) > QUERIES / 8, JSON.stringify([...seen]));
});

function check(outcome: Outcome, query: string): void {
  if (outcome.kind === "answer") {
    for (const secret of ["s1", "p1", "gold"]) assert.ok(!outcome.body.includes(`"${secret}"`), query);
    return;
  }
  if (outcome.kind === "refused") {
    assert.ok(outcome.error.status < 500, JSON.stringify(outcome));
  } else {
    assert.doesNotMatch(outcome.code, FAULTS, JSON.stringify(outcome));
    // a tsvector or tsquery that cannot be read has the code of bad SQL
    const isTextSearch = /"file":"ts(vector_parser|query)\.c"/.test(outcome.message);
    assert.ok(
      isTextSearch || !["42601", "42P18", "42702", "42803", "42P01"].includes(outcome.code),
      JSON.stringify(outcome),
    );
  }
  const said = outcome.kind === "refused" ? JSON.stringify(outcome.error) : outcome.message;
  for (const name of HIDDEN) assert.ok(!said.includes(name) || query.includes(name), `${said} for ${query}`);
}
