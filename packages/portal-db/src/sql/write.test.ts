import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type FilmsDatabase, type Outcome, type ShortRequest, startFilms } from "../../test/films-database.ts";

type Answer = Extract<Outcome, { kind: "answer" }>;
const GIVES = { return: "representation" } as const;

suite("writes", () => {
  let films: FilmsDatabase;
  before(async () => {
    films = await startFilms();
  });
  after(() => films?.[Symbol.asyncDispose]());

  const answer = async (request: ShortRequest): Promise<Answer> => {
    const outcome = await films.run(request);
    assert.equal(outcome.kind, "answer", JSON.stringify(outcome));
    return outcome as Answer;
  };
  const rows = async (request: ShortRequest): Promise<unknown> => {
    const { prefer } = request;
    return JSON.parse((await answer({ ...request, prefer: { ...GIVES, ...prefer } })).body);
  };
  const refused = async (request: ShortRequest): Promise<readonly [number, string, string]> => {
    const outcome = await films.run(request);
    if (outcome.kind !== "refused") assert.fail(JSON.stringify(outcome));
    return [outcome.error.status, outcome.error.code, outcome.error.message];
  };
  const failure = async (request: ShortRequest): Promise<string> => {
    const outcome = await films.run(request);
    return outcome.kind === "failed" ? outcome.code : JSON.stringify(outcome);
  };

  test("an insert gives what was asked for: nothing, the row, its key", async () => {
    const body = { id: 9, title: "Neu", studio_id: 1 };
    const minimal = await answer({ verb: "POST", table: "films", body });
    assert.deepEqual([minimal.body, minimal.pageTotal, minimal.affected, minimal.plan.isWrite], ["", 1, 1, true]);
    assert.deepEqual(await rows({ verb: "POST", table: "films", body }), [
      { id: 9, title: "Neu", director_id: null, writer_id: null, studio_id: 1, words: null },
    ]);
    const key = await answer({ verb: "POST", table: "films", body, prefer: { return: "headers-only" } });
    assert.deepEqual([key.body, key.plan.keyColumns], ['[{"id":9}]', ["id"]]);
  });

  test("a write that gives back may embed, order and be CSV", async () => {
    const body = [
      { id: 10, title: "B", studio_id: 2 },
      { id: 11, title: "A", studio_id: 2 },
    ];
    const request = { verb: "POST", table: "films", body } as const;
    assert.deepEqual(await rows({ ...request, query: "select=title,studios(name),details(budget)&order=title" }), [
      { title: "A", studios: { name: "Toho" }, details: null },
      { title: "B", studios: { name: "Toho" }, details: null },
    ]);
    const csv = await answer({ ...request, query: "select=id,title", media: "csv", prefer: GIVES });
    assert.equal(csv.body, "id,title\n10,B\n11,A");
    const patched = {
      verb: "PATCH",
      table: "films",
      query: "id=eq.1&select=...studios(name),d:director_id(name)",
    } as const;
    assert.deepEqual(await rows({ ...patched, body: { studio_id: 2 } }), [{ name: "Toho", d: { name: "Agnès" } }]);
    const gone = { verb: "DELETE", table: "films", query: "studio_id=eq.2&select=title&order=id.desc" } as const;
    assert.deepEqual(await rows(gone), [{ title: "Ikiru" }, { title: "Ran" }]);
  });

  test("an embedded row that must be there leaves the written rows counted", async () => {
    const query = "select=id,studios!inner(name)&id=in.(3,4)";
    const { body, pageTotal, affected } = await answer({
      verb: "PATCH",
      table: "films",
      query,
      body: { title: "x" },
      prefer: GIVES,
    });
    assert.deepEqual([JSON.parse(body), pageTotal, affected].slice(1), [2, 2]);
  });

  test("columns that may be written and not read: written, and never given back", async () => {
    const person = { name: "Neu", pin: "p" };
    const [row] = (await rows({ verb: "POST", table: "people", body: person })) as Record<string, unknown>[];
    assert.equal(row?.name, "Neu");
    assert.equal(Object.hasOwn(row ?? {}, "pin"), false);
    const asked = { verb: "POST", table: "people", body: person, prefer: GIVES } as const;
    assert.deepEqual((await refused({ ...asked, query: "select=pin" })).slice(0, 2), [403, "42501"]);
    assert.equal((await answer({ ...asked, prefer: {} })).affected, 1);
  });

  test("types of every kind are written as they are read", async () => {
    const body = {
      name: "T",
      born: "2001-02-03",
      score: 1.25,
      big: 42,
      tags: ["x", 'y "z"'],
      data: { a: [1, null], __proto__x: 1 },
      extra: [1, "2"],
      active: false,
      at: "2024-01-02T03:04:05+02:00",
      mood: "sad",
    };
    const [row] = (await rows({ verb: "POST", table: "people", body })) as Record<string, unknown>[];
    assert.deepEqual({ ...row, id: 0 }, { ...body, id: 0, country: null, at: "2024-01-02T01:04:05+00:00" });
  });

  test("bulk rows have the same keys, or columns=", async () => {
    const body = [{ id: 20, title: "A" }, { id: 21 }];
    const mixed = await refused({ verb: "POST", table: "films", body });
    assert.deepEqual(mixed, [400, "PGRST102", "All object keys must match"]);
    const query = 'columns="id","name"&select=id,name,tags&order=id';
    const people = [
      { id: 50, name: "A", ignored: 1 },
      { id: 51, name: "B" },
    ];
    assert.deepEqual(await rows({ verb: "POST", table: "people", query, body: people }), [
      { id: 50, name: "A", tags: ["new"] },
      { id: 51, name: "B", tags: ["new"] },
    ]);
    assert.deepEqual(await rows({ verb: "POST", table: "films", body: [] }), []);
  });

  test("missing=default fills what rows leave out, else they are null", async () => {
    const query = "columns=id,name,tags,active&select=id,tags,active&order=id";
    const body = [
      { id: 60, name: "A", tags: ["t"] },
      { id: 61, name: "B", active: false },
    ];
    const request = { verb: "POST", table: "people", query, body } as const;
    assert.deepEqual(await rows({ ...request, prefer: { missing: "default" } }), [
      { id: 60, tags: ["t"], active: true },
      { id: 61, tags: ["new"], active: false },
    ]);
    assert.deepEqual(await rows(request), [
      { id: 60, tags: ["t"], active: null },
      { id: 61, tags: null, active: false },
    ]);
    const patch = { verb: "PATCH", table: "people", query: "columns=tags,score&select=tags,score&id=eq.1" } as const;
    assert.deepEqual(await rows({ ...patch, body: { score: 1 }, prefer: { missing: "default" } }), [
      { tags: ["new"], score: 1 },
    ]);
    assert.deepEqual(await rows({ ...patch, body: {}, prefer: { missing: "default" } }), [
      { tags: ["new"], score: null },
    ]);
  });

  test("rows of defaults alone", async () => {
    assert.equal(await failure({ verb: "POST", table: "people", body: {} }), "23502");
    assert.equal(await failure({ verb: "POST", table: "films", body: [{}, {}] }), "23502");
  });

  test("upserts: merge, ignore, on another key, and how many were new", async () => {
    const merge = { resolution: "merge-duplicates" } as const;
    const body = [
      { id: 1, name: "Neu" },
      { id: 4, name: "Vier" },
    ];
    const request = { verb: "POST", table: "studios", body, query: "order=id" } as const;
    const merged = await answer({ ...request, prefer: { ...GIVES, ...merge } });
    assert.deepEqual(JSON.parse(merged.body), body);
    assert.deepEqual([merged.pageTotal, merged.inserted], [2, 1]);
    assert.equal((await answer({ ...request, body: body[0], prefer: merge })).inserted, 0);
    const ignored = await answer({ ...request, prefer: { ...GIVES, resolution: "ignore-duplicates" } });
    assert.deepEqual(JSON.parse(ignored.body), [{ id: 4, name: "Vier" }]);
    const byName = await answer({
      ...request,
      query: "on_conflict=name",
      body: { id: 8, name: "Toho" },
      prefer: { resolution: "ignore-duplicates" },
    });
    assert.equal(byName.pageTotal, 0);
    assert.equal(await failure({ ...request, query: "on_conflict=id,name", prefer: merge }), "42P10");
    assert.deepEqual((await refused({ ...request, query: "on_conflict=nope", prefer: merge })).slice(0, 2), [
      400,
      "42703",
    ]);
    assert.equal(await failure(request), "23505");
    // the key may not be updated here, and need not be
    assert.deepEqual(
      await rows({ verb: "POST", table: "people", query: "select=id,name", body: { id: 1, name: "N" }, prefer: merge }),
      [{ id: 1, name: "N" }],
    );
    assert.deepEqual(await rows({ verb: "POST", table: "roles", body: { film_id: 1, person_id: 2 }, prefer: merge }), [
      { film_id: 1, person_id: 2 },
    ]);
  });

  test("a PUT names one row by its key", async () => {
    const put = { verb: "PUT", table: "studios" } as const;
    const made = await answer({ ...put, query: "id=eq.7", body: { id: 7, name: "Sieben" }, prefer: GIVES });
    assert.deepEqual([made.body, made.inserted], ['[{"id":7,"name":"Sieben"}]', 1]);
    assert.equal((await answer({ ...put, query: "id=eq.1", body: { id: 1, name: "Eins" } })).inserted, 0);
    const code = async (query: string, body: unknown): Promise<string> => (await refused({ ...put, query, body }))[1];
    assert.equal(await code("", { id: 1 }), "PGRST105");
    assert.equal(await code("id=gt.1", { id: 1 }), "PGRST105");
    assert.equal(await code("id=eq.1&name=eq.x", { id: 1 }), "PGRST105");
    assert.equal(await code("id=eq.1&or=(id.eq.1,id.eq.2)", { id: 1 }), "PGRST105");
    assert.equal(await code("id=eq.1", { id: 2 }), "PGRST115");
    assert.equal(await code("id=eq.1", [{ id: 1 }, { id: 1 }]), "PGRST115");
    assert.equal(await code("id=eq.1&limit=1", { id: 1 }), "PGRST114");
  });

  test("PATCH and DELETE need a filter, take no limit, and reach only what matches", async () => {
    const patch = { verb: "PATCH", table: "films", body: { title: "x" } } as const;
    assert.deepEqual(await refused(patch), [400, "FILTER_REQUIRED", "UPDATE requires a filter"]);
    assert.equal((await refused({ ...patch, query: "select=id&order=id&columns=title" }))[1], "FILTER_REQUIRED");
    assert.equal((await refused({ ...patch, query: "select=studios(id)&studios.id=eq.1" }))[1], "FILTER_REQUIRED");
    assert.deepEqual(await refused({ verb: "DELETE", table: "films" }), [
      400,
      "FILTER_REQUIRED",
      "DELETE requires a filter",
    ]);
    assert.equal((await refused({ verb: "DELETE", table: "films", query: "id=gt.0&limit=1" }))[1], "PGRST114");
    assert.deepEqual(await rows({ ...patch, query: "or=(id.eq.1,id.eq.4)&select=id,title&order=id" }), [
      { id: 1, title: "x" },
      { id: 4, title: "x" },
    ]);
    assert.equal((await answer({ ...patch, query: "select=studios()&studios=not.is.null" })).affected, 3);
    assert.deepEqual(await rows({ ...patch, query: "id=eq.1&select=id", body: {} }), []);
    assert.equal((await refused({ ...patch, body: {} }))[1], "FILTER_REQUIRED");
    assert.equal((await refused({ ...patch, query: "id=eq.1", body: [] }))[1], "PGRST102");
  });

  test("an empty in.() deletes nothing", async () => {
    assert.equal((await answer({ verb: "DELETE", table: "films", query: "id=in.()" })).affected, 0);
  });

  test("refused: no body, unknown columns, what the role may not", async () => {
    const post = { verb: "POST", table: "people" } as const;
    assert.deepEqual(await refused(post), [400, "PGRST102", "Empty or invalid json"]);
    const unknown = "Could not find the 'nope' column of 'people' in the schema cache";
    assert.deepEqual(await refused({ ...post, body: { nope: 1 } }), [400, "PGRST204", unknown]);
    assert.equal((await refused({ ...post, body: { secret: 1 } }))[1], "PGRST204");
    assert.equal((await refused({ ...post, body: JSON.parse('{"__proto__":1}') }))[1], "PGRST204");
    assert.equal((await refused({ ...post, query: "columns=constructor", body: {} }))[1], "PGRST204");
    const patch = { verb: "PATCH", table: "people", query: "id=eq.1" } as const;
    assert.deepEqual((await refused({ ...patch, body: { id: 5 } })).slice(0, 2), [403, "42501"]);
    for (const verb of ["POST", "PATCH", "PUT", "DELETE"] as const) {
      assert.deepEqual((await refused({ verb, table: "folders", query: "id=eq.1", body: { id: 1 } })).slice(0, 2), [
        403,
        "42501",
      ]);
    }
  });

  test("the database's own words: too long, not null, foreign key, bad types, NUL", async () => {
    const post = { verb: "POST", table: "people" } as const;
    assert.equal(await failure({ ...post, body: { name: "x".repeat(43) } }), "22001");
    assert.equal(await failure({ ...post, body: { name: null } }), "23502");
    assert.equal(await failure({ ...post, body: { name: "x", country: "zz" } }), "23503");
    assert.equal(await failure({ ...post, body: { name: "x", score: "many" } }), "22P02");
    assert.equal(await failure({ ...post, body: { name: "a\u0000" } }), "22P05");
    assert.equal(await failure({ ...post, body: { name: "a\ud800" } }), "22P02");
  });
});
