import assert from "node:assert/strict";
import { test } from "node:test";
import { FILMS_VIEW, requestOf, type ShortRequest } from "../../test/films-database.ts";
import type { ColumnView, RoleView, TableView } from "../types.ts";
import { planRequest } from "./plan-request.ts";

const plan = (request: ShortRequest, view: RoleView = FILMS_VIEW): ReturnType<typeof planRequest> =>
  planRequest(requestOf(request), view, { maxRows: 10, schema: "portal" });

const codeOf = (request: ShortRequest, view?: RoleView): string => {
  const result = plan(request, view);
  return result.ok ? "planned" : `${result.error.status} ${result.error.code}`;
};

/** The view with a table changed, or without it. */
function viewWith(name: string, change: (table: TableView) => TableView | undefined): RoleView {
  const tables = new Map(FILMS_VIEW.tables);
  const table = tables.get(name);
  assert.ok(table);
  const changed = change(table);
  if (changed === undefined) tables.delete(name);
  else tables.set(name, changed);
  return { ...FILMS_VIEW, tables };
}

function unreadable(table: TableView, column: string): TableView {
  const columns = new Map(table.columns);
  const view = columns.get(column);
  assert.ok(view);
  const hidden: ColumnView = { ...view, may: { ...view.may, select: false } };
  return { ...table, columns: columns.set(column, hidden) };
}

test("values are never in the text", () => {
  const marks = ["m4rk1", "m4rk2", "m4rk3", "m4rk4", "m4rk5"];
  const query =
    `name=eq.m4rk1&tags=cs.{m4rk2}&or=(name.in.(m4rk3),data->m4rk4->>x.like.m4rk5)&select=data->m4rk4,studio:name` +
    "&order=data->>m4rk4&limit=12345&offset=54321";
  for (const request of [
    { table: "people", query },
    { verb: "PATCH", table: "people", query: "name=eq.m4rk1", body: { name: "m4rk2", tags: ["m4rk3"] } },
    { verb: "POST", table: "people", body: [{ name: "m4rk1" }] },
  ] as const) {
    const result = plan(request);
    assert.ok(result.ok, JSON.stringify(result));
    const { text } = result.plan.main;
    // a JSON path's last name is the name of the answer's column, quoted
    const unnamed = text.replaceAll('"m4rk4"', "");
    for (const mark of [...marks, "12345", "54321"]) assert.ok(!unnamed.includes(mark), `${mark} in ${text}`);
  }
});

test("every placeholder is there once, in order", () => {
  const query =
    "select=id,a:data->a,a:data->b,...countries(x:name)&name=like.a*&order=data->c.desc&countries.name=eq.x";
  const result = plan({ table: "people", query, media: "csv", prefer: { count: "estimated" } });
  assert.ok(result.ok);
  for (const statement of [result.plan.main, result.plan.count, result.plan.explain]) {
    assert.ok(statement);
    const used = [...statement.text.matchAll(/\$(\d+)/g)].map((match) => Number(match[1])).toSorted((a, b) => a - b);
    assert.deepEqual(
      used,
      statement.values.map((_, index) => index + 1),
    );
  }
});

test("without a token every table is refused alike, whether it is there or not", () => {
  const anon: RoleView = { role: "anon", tables: new Map() };
  assert.equal(codeOf({ table: "people" }, anon), "401 42501");
  assert.equal(codeOf({ table: "no_such_table", query: "id=noop" }, anon), "401 42501");
});

test("a relation is there only when both ends of its key can be read", () => {
  assert.equal(codeOf({ table: "films", query: "select=studios(name)" }), "planned");
  const near = viewWith("films", (table) => unreadable(table, "studio_id"));
  assert.equal(codeOf({ table: "films", query: "select=studios(name)" }, near), "400 PGRST200");
  assert.equal(codeOf({ table: "studios", query: "select=films(title)" }, near), "400 PGRST200");
  const far = viewWith("studios", (table) => unreadable(table, "id"));
  assert.equal(codeOf({ table: "films", query: "select=studios(name)" }, far), "400 PGRST200");
  assert.equal(codeOf({ table: "films", query: "studios=is.null&select=studios()" }, far), "400 PGRST200");
});

test("a junction that the role does not see makes no way, and no ambiguity", () => {
  assert.equal(codeOf({ table: "films", query: "select=genres(name)" }), "planned");
  const without = viewWith("film_genres", () => undefined);
  assert.equal(codeOf({ table: "films", query: "select=genres(name)" }, without), "400 PGRST200");
  const hidden = viewWith("film_genres", (table) => unreadable(table, "genre_id"));
  assert.equal(codeOf({ table: "films", query: "select=genres(name)" }, hidden), "400 PGRST200");
  // a table whose key has more than the two foreign keys' columns beside it is no junction
  const loose = viewWith("film_genres", (table) => ({ ...table, primaryKey: ["id"] }));
  assert.equal(codeOf({ table: "films", query: "select=genres(name)" }, loose), "400 PGRST200");
});

test("tables that may not be read are refused before the database", () => {
  const view = viewWith("studios", (table) => ({ ...table, may: { ...table.may, select: false } }));
  assert.equal(codeOf({ table: "studios" }, view), "403 42501");
});
