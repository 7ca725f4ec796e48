import assert from "node:assert/strict";
import { test } from "node:test";
import type { FastifyRequest } from "fastify";
import { FILMS_VIEW } from "../../test/films-database.ts";
import type { Caller } from "../types.ts";
import { createRequestPlanner, type PlannedResult, type RequestPlanner } from "./read-plans.ts";
import { readTarget } from "./target.ts";

type Headers = Readonly<Record<string, string>>;

const READER: Caller = { role: "reader", accountId: undefined, tokenId: "a", claims: { role: "reader" } };
const BOUND: Caller = { ...READER, accountId: "10000000-0000-0000-0000-000000000004" };
const TARGET = "/people?select=name";

function ask(
  planner: RequestPlanner,
  { url = TARGET, method = "GET", headers = {}, caller = READER, view = FILMS_VIEW } = {} as {
    readonly url?: string;
    readonly method?: string;
    readonly headers?: Headers;
    readonly caller?: Caller;
    readonly view?: typeof FILMS_VIEW;
  },
): PlannedResult {
  const target = readTarget(url);
  assert.ok(target.kind === "table");
  const body = method === "POST" ? Buffer.from("{}") : undefined;
  const request = { method, headers, body, raw: { url } } as unknown as FastifyRequest;
  return planner(request, target, caller, view);
}

test("the plan of a read is made once", () => {
  const planner = createRequestPlanner({ maxRows: 10, maxKept: 10 });
  const first = ask(planner);
  assert.ok(first.ok);
  assert.equal(ask(planner), first);
  assert.equal(ask(planner, { headers: { "x-client-info": "another" } }), first);
  assert.equal(ask(planner, { caller: { ...READER, tokenId: "b" } }), first, "nothing of a caller is in it");
});

test("whatever a plan is made of has a plan of its own, also by another way", () => {
  const planner = createRequestPlanner({ maxRows: 10, maxKept: 100 });
  const variants: readonly Parameters<typeof ask>[1][] = [
    {},
    { url: "/people?select=name&limit=1" },
    { url: "/people?select=%6Eame" },
    { method: "HEAD" },
    { headers: { accept: "text/csv" } },
    { headers: { accept: "" } },
    { headers: { accept: "application/vnd.pgrst.object+json" } },
    { headers: { accept: "application/vnd.pgrst.array+json;nulls=stripped" } },
    { headers: { "accept-profile": "public" } },
    { headers: { prefer: "count=exact" } },
    { headers: { prefer: "count=planned" } },
    { headers: { prefer: "count=planned" }, caller: BOUND },
    { headers: { range: "0-1" } },
    { headers: { range: "0-2" } },
    { headers: { range: "0-1", "range-unit": "items" } },
    { caller: BOUND },
    { view: { ...FILMS_VIEW } },
  ];
  const all = variants.map((variant) => ask(planner, variant));
  assert.ok(all.every(({ ok }) => ok));
  assert.equal(new Set(all).size, variants.length);
  assert.deepEqual(
    variants.map((variant) => ask(planner, variant)),
    all,
  );
  // A fresh planner makes the same of each alone: no plan came to be used for another request.
  for (const [at, variant] of variants.entries()) {
    assert.deepEqual(ask(createRequestPlanner({ maxRows: 10, maxKept: 1 }), variant), all[at]);
  }
});

test("a caller that is bound to an account gets no planner's estimate from the plan of one that is not", () => {
  const planner = createRequestPlanner({ maxRows: 10, maxKept: 10 });
  const headers = { prefer: "count=planned" };
  const [free, bound] = [ask(planner, { headers }), ask(planner, { headers, caller: BOUND })];
  assert.ok(free.ok && bound.ok);
  assert.equal(free.plan.countBy, "explain");
  assert.equal(bound.plan.countBy, "rows");
});

test("after a change of the view plans are made anew, and what is refused is not kept", () => {
  const planner = createRequestPlanner({ maxRows: 10, maxKept: 10 });
  assert.ok(ask(planner).ok);
  const tables = new Map(FILMS_VIEW.tables);
  tables.delete("people");
  const view = { ...FILMS_VIEW, tables };
  const refused = ask(planner, { view });
  assert.ok(!refused.ok);
  tables.set("people", FILMS_VIEW.tables.get("people") ?? assert.fail());
  assert.ok(ask(planner, { view }).ok);
});

test("so many plans are kept, and none of a write or of a very long request", () => {
  const planner = createRequestPlanner({ maxRows: 10, maxKept: 2 });
  const first = ask(planner);
  for (const limit of [1, 2]) ask(planner, { url: `${TARGET}&limit=${limit}` });
  assert.notEqual(ask(planner), first);
  assert.deepEqual(ask(planner), first);
  const long = { url: `${TARGET}&name=eq.${"x".repeat(5_000)}` };
  assert.notEqual(ask(planner, long), ask(planner, long));
  const write = { url: "/people", method: "POST" };
  assert.notEqual(ask(planner, write), ask(planner, write));
});
