import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type FilmsDatabase, type Outcome, type ShortRequest, startFilms } from "../../test/films-database.ts";

suite("reads", () => {
  let films: FilmsDatabase;
  before(async () => {
    films = await startFilms();
  });
  after(() => films?.[Symbol.asyncDispose]());

  const answer = async (
    request: ShortRequest,
    opts?: { maxRows: number },
  ): Promise<Extract<Outcome, { kind: "answer" }>> => {
    const outcome = await films.run(request, opts);
    assert.equal(outcome.kind, "answer", JSON.stringify(outcome));
    return outcome as Extract<Outcome, { kind: "answer" }>;
  };
  const get = async (table: string, query = ""): Promise<unknown> => JSON.parse((await answer({ table, query })).body);
  const refused = async (request: ShortRequest): Promise<readonly [number, string]> => {
    const outcome = await films.run(request);
    assert.equal(outcome.kind, "refused", JSON.stringify(outcome));
    return outcome.kind === "refused" ? [outcome.error.status, outcome.error.code] : [0, ""];
  };
  const ids = async (table: string, query: string): Promise<unknown> => {
    const rows = (await get(table, `select=id&order=id&${query}`)) as readonly { id: number }[];
    return rows.map((row) => row.id);
  };
  const failure = async (table: string, query: string): Promise<string> => {
    const outcome = await films.run({ table, query });
    return outcome.kind === "failed" ? outcome.code : JSON.stringify(outcome);
  };

  test("types are written as PostgreSQL writes JSON, `*` without what the role may not read", async () => {
    const { body } = await answer({ table: "people", query: "id=eq.1" });
    assert.equal(
      body,
      '[{"id":1,"name":"Agnès","country":"fr","born":"1928-05-30","score":9.50,"big":9007199254740993,' +
        '"tags":["a","b"],"data":{"a": {"b": [1, 2, {"c": "x"}]}, "n": null},"extra":{"k":"v"},"active":true,' +
        '"at":"2024-05-06T07:08:09+00:00","mood":"glad"}]',
    );
  });

  test("select: alias, cast, JSON paths, nothing at all", async () => {
    assert.deepEqual(await get("people", "select=who:name,id::text,data->a->b->2->>c,last:data->a->b->-1&id=eq.1"), [
      { who: "Agnès", id: "1", c: "x", last: { c: "x" } },
    ]);
    assert.deepEqual(await get("people", "select=tags->0,at::date&id=eq.1"), [{ tags: "a", at: "2024-05-06" }]);
    assert.deepEqual(await get("studios", "select="), [{}, {}, {}]);
    assert.deepEqual(await get("studios", 'select=id,id:name,t1:id,"a b":id&id=eq.1'), [
      { id: "Ciné", t1: 1, "a b": 1 },
    ]);
  });

  for (const [query, expected] of [
    ["id=eq.2", [2]],
    ["id=neq.2", [1, 3]],
    ["id=gt.1&id=lte.2", [2]],
    ["id=not.eq.2", [1, 3]],
    ["id=in.(1,3)", [1, 3]],
    ["id=not.in.(1,3)", [2]],
    ["id=in.()", []],
    ['name=in.("Agnès","Nobody, \\"the\\" \\\\ third")', [1, 3]],
    ["name=like.A*", [1, 2]],
    ["name=ilike.a*A", [2]],
    ["name=like(any).{Agn*,Nob*}", [1, 3]],
    ["name=like(all).{A*,*a}", [2]],
    ["id=eq(any).{1,2}", [1, 2]],
    ["name=match.^A.%2Bi", [2]],
    ["name=imatch.^a", [1, 2]],
    ["country=is.null", [3]],
    ["country=not.is.null", [1, 2]],
    ["country=is.not_null", [1, 2]],
    ["active=is.true", [1]],
    ["active=is.FALSE", [2]],
    ["active=is.unknown", [3]],
    ["country=isdistinct.fr", [2, 3]],
    ["tags=cs.{a}", [1]],
    ["tags=cd.{b,c}", [2]],
    ["tags=ov.{a,z}", [1]],
    ["mood=eq.glad", [1]],
    ["mood=in.(glad,sad)", [1, 2]],
    ["data->a->b->>0=eq.3", [2]],
    ["data->a->b->2->>c=eq.x", [1]],
    ['data->a=eq.{"b":[3]}', [2]],
    ["extra->>k=eq.v", [1]],
    ["name=fts.agnès", [1]],
    ["name=plfts(simple).akira", [2]],
    ["or=(id.eq.1,id.eq.3)", [1, 3]],
    ["not.or=(id.eq.1,id.eq.3)", [2]],
    ["and=(id.gt.1,or(country.eq.jp,not.and(id.eq.3,id.eq.3)))", [2]],
    ['or=(id.in.(1,2),name.eq."x,y")&country=eq.jp', [2]],
    ["or=(tags.cs.{a,b},id.eq.3)", [1, 3]],
    ["or=(data->a->b->>0.eq.3,id.not.in.(1,2))", [2, 3]],
    ["at=gte.2024-05-06T07:08:09%2B00:00", [1, 2, 3]],
  ] as const) {
    test(`filter ${query}`, async () => {
      assert.deepEqual(await ids("people", query), expected);
    });
  }

  test("full text of a tsvector takes a language", async () => {
    assert.deepEqual(await ids("films", "words=fts(english).walk"), [1]);
    assert.deepEqual(await ids("films", "words=wfts(english).living or cities"), [1, 3]);
    assert.deepEqual(await ids("films", "words=not.phfts(english).city walk"), [1, 3]);
  });

  test("order, JSON order, related order, nulls", async () => {
    const order = async (query: string, select = "id"): Promise<unknown> => {
      return ((await get("people", `select=${select}&${query}`)) as { id: number }[]).map((row) => row.id);
    };
    assert.deepEqual(await order("order=score.desc.nullslast"), [2, 1, 3]);
    assert.deepEqual(await order("order=score.nullsfirst,id.desc"), [3, 1, 2]);
    assert.deepEqual(await order("order=data->a->b->>0.desc.nullslast"), [2, 1, 3]);
    assert.deepEqual(await order("order=countries(name).desc.nullslast", "id,countries(code)"), [2, 1, 3]);
    assert.deepEqual(await refused({ table: "people", query: "order=countries(name)" }), [400, "PGRST108"]);
    assert.deepEqual(await refused({ table: "studios", query: "select=films(id)&order=films(id)" }), [400, "PGRST118"]);
    assert.deepEqual(await refused({ table: "people", query: "order=;drop" }), [400, "PGRST100"]);
  });

  test("paging: limit, offset, Range, the most rows", async () => {
    const page = async (query: string, more: Partial<ShortRequest> = {}, maxRows = 1000): Promise<unknown> => {
      const { body, plan, pageTotal } = await answer(
        { table: "people", query: `select=id&order=id&${query}`, ...more },
        { maxRows },
      );
      return [(JSON.parse(body) as { id: number }[]).map((row) => row.id), plan.offset, plan.limit, pageTotal];
    };
    assert.deepEqual(await page("limit=1&offset=1"), [[2], 1, 1, 1]);
    assert.deepEqual(await page("limit=0"), [[], 0, 0, 0]);
    assert.deepEqual(await page("", {}, 2), [[1, 2], 0, 2, 2]);
    assert.deepEqual(await page("limit=9", {}, 2), [[1, 2], 0, 2, 2]);
    assert.deepEqual(await page("", { range: { from: 1, to: 1 } }), [[2], 1, 1, 1]);
    assert.deepEqual(await page("limit=2", { range: { from: 1, to: undefined } }), [[2], 1, 1, 1]);
    assert.deepEqual(await page("offset=99999999999999999999"), [[], Number.MAX_SAFE_INTEGER, 1000, 0]);
  });

  test("what is no page is 416", async () => {
    assert.deepEqual(await refused({ table: "people", query: "limit=-1" }), [416, "PGRST103"]);
    assert.deepEqual(await refused({ table: "people", range: { from: 3, to: 1 } }), [416, "PGRST103"]);
    assert.deepEqual(await refused({ table: "people", query: "limit=1", range: { from: 5, to: 9 } }), [
      416,
      "PGRST103",
    ]);
    assert.deepEqual(await refused({ table: "people", query: "limit=x" }), [400, "PGRST100"]);
  });

  test("counts: exact, planned, estimated", async () => {
    const count = async (
      kind: "exact" | "planned" | "estimated",
      query: string,
      maxRows = 1000,
    ): Promise<Extract<Outcome, { kind: "answer" }>> =>
      answer({ table: "films", query, prefer: { count: kind } }, { maxRows });
    assert.equal((await count("exact", "limit=1")).total, 4);
    assert.equal((await count("exact", "limit=1&select=id,studios!inner()&studios.name=eq.Toho")).total, 2);
    const planned = await count("planned", "id=eq.1");
    assert.deepEqual([planned.total, planned.planned, planned.plan.countBy], [undefined, 1, "explain"]);
    const estimated = await count("estimated", "", 2);
    assert.deepEqual([estimated.total, typeof estimated.planned, estimated.plan.countBy], [3, "number", "both"]);
  });

  test("embedding: to-one, to-many, both ways one, through a junction, of itself", async () => {
    assert.deepEqual(await get("films", "select=title,studios(name)&order=id&limit=1"), [
      { title: "Cléo", studios: { name: "Ciné" } },
    ]);
    assert.deepEqual(await get("films", "select=studios(name)&id=eq.4"), [{ studios: null }]);
    assert.deepEqual(await get("studios", "select=name,films(title)&films.order=title&order=id"), [
      { name: "Ciné", films: [{ title: "Cléo" }] },
      { name: "Toho", films: [{ title: "Ikiru" }, { title: "Ran" }] },
      { name: "Empty", films: [] },
    ]);
    assert.deepEqual(await get("films", "select=details(budget)&id=lte.3&order=id"), [
      { details: { budget: 1.5 } },
      { details: { budget: 11000000 } },
      { details: null },
    ]);
    assert.deepEqual(await get("details", "select=films(title)&film_id=eq.1"), [{ films: { title: "Cléo" } }]);
    assert.deepEqual(await get("genres", "select=name,films(title)&films.order=id&id=eq.1"), [
      { name: "drama", films: [{ title: "Cléo" }, { title: "Ran" }] },
    ]);
    assert.deepEqual(
      await get("folders", "select=name,folders(name),parent_id(name)&id=in.(1,2)&order=id&folders.order=id"),
      [
        { name: "root", folders: [{ name: "left" }, { name: "right" }], parent_id: null },
        { name: "left", folders: [], parent_id: { name: "root" } },
      ],
    );
  });

  test("ambiguity is 300 with the candidates, and each has a hint that works", async () => {
    const outcome = await films.run({ table: "films", query: "select=people(name)" });
    assert.equal(outcome.kind, "refused");
    const { error } = outcome as Extract<Outcome, { kind: "refused" }>;
    assert.deepEqual([error.status, error.code], [300, "PGRST201"]);
    assert.deepEqual(error.details, [
      {
        cardinality: "many-to-one",
        embedding: "films with people",
        relationship: "films_director_id_fkey using films(director_id) and people(id)",
      },
      {
        cardinality: "many-to-one",
        embedding: "films with people",
        relationship: "films_writer_id_fkey using films(writer_id) and people(id)",
      },
      {
        cardinality: "many-to-many",
        embedding: "films with people",
        relationship: "roles using roles_film_id_fkey(film_id) and roles_person_id_fkey(person_id)",
      },
    ]);
    assert.match(error.hint ?? "", /'people!films_director_id_fkey', 'people!films_writer_id_fkey', 'people!roles'/);
    assert.deepEqual(
      await get(
        "films",
        "select=d:people!films_director_id_fkey(name),w:people!writer_id(name),roles(people(id)),cast:people!roles(id)&id=eq.2",
      ),
      [{ d: { name: "Akira" }, w: { name: "Agnès" }, roles: [{ people: { id: 3 } }], cast: [{ id: 3 }] }],
    );
    assert.deepEqual(await get("films", "select=director_id(name)&id=eq.2"), [{ director_id: { name: "Akira" } }]);
    assert.deepEqual(await get("people", "select=films!films_writer_id_fkey(id)&id=eq.1&films.order=id.desc"), [
      { films: [{ id: 2 }, { id: 1 }] },
    ]);
  });

  test("inner, filters on embedded rows, null filters, spread, two levels, limits of a level", async () => {
    assert.deepEqual(await get("films", "select=id,studios!inner(name)&studios.name=eq.Toho&order=id"), [
      { id: 2, studios: { name: "Toho" } },
      { id: 3, studios: { name: "Toho" } },
    ]);
    assert.deepEqual(await get("films", "select=id,s:studios(name)&s.name=eq.Toho&order=id&limit=2"), [
      { id: 1, s: null },
      { id: 2, s: { name: "Toho" } },
    ]);
    assert.deepEqual(await get("studios", "select=id,films()&films=is.null"), [{ id: 3 }]);
    assert.deepEqual(await get("studios", "select=id,films(id)&films=not.is.null&films.or=(id.eq.1,id.eq.9)"), [
      { id: 1, films: [{ id: 1 }] },
    ]);
    assert.deepEqual(
      await get("studios", "select=id,films!inner(id,film_genres!inner(genre_id))&films.film_genres.genre_id=eq.2"),
      [{ id: 2, films: [{ id: 2, film_genres: [{ genre_id: 2 }] }] }],
    );
    assert.deepEqual(await get("films", "select=title,...studios(studio:name,films(id))&id=eq.1"), [
      { title: "Cléo", studio: "Ciné", films: [{ id: 1 }] },
    ]);
    assert.deepEqual(
      await get("studios", "select=name,...films(title,details(budget))&films.order=id.desc&id=gt.1&order=id"),
      [
        { name: "Toho", title: ["Ikiru", "Ran"], details: [null, { budget: 11000000 }] },
        { name: "Empty", title: [], details: [] },
      ],
    );
    assert.deepEqual(await get("films", "select=id,...studios()&id=eq.1"), [{ id: 1 }]);
    assert.deepEqual(await get("people", "select=x:data->a,x:name,name:id,...countries(name)&id=eq.1"), [
      { x: "Agnès", name: "France" },
    ]);
    assert.deepEqual(
      await get(
        "people",
        "select=name,films!director_id(title,studios(name,films(title)))&id=eq.2&films.limit=1&films.order=id&films.studios.films.offset=1&films.studios.films.order=id",
      ),
      [{ name: "Akira", films: [{ title: "Ran", studios: { name: "Toho", films: [{ title: "Ikiru" }] } }] }],
    );
  });

  test("CSV, HEAD, stripped nulls", async () => {
    const csv = await answer({
      table: "people",
      query: "select=id,name,active,countries(name)&order=id",
      media: "csv",
    });
    assert.equal(
      csv.body,
      'id,name,active,countries\n1,Agnès,true,"{""name"":""France""}"\n2,Akira,false,"{""name"":""Japan""}"\n' +
        '3,"Nobody, ""the"" \\ third",,',
    );
    assert.equal((await answer({ table: "people", query: "select=id&id=eq.9", media: "csv" })).body, "id");
    const head = await answer({ table: "people", verb: "HEAD", query: "select=id,data->a" });
    assert.deepEqual([head.body, head.pageTotal], ["", 3]);
    const stripped = await answer({
      table: "people",
      query: "select=id,country,data&id=in.(1,3)&order=id",
      stripsNulls: true,
    });
    assert.equal(stripped.body, '[{"id":1,"country":"fr","data":{"a":{"b":[1,2,{"c":"x"}]}}},{"id":3}]');
  });

  test("bad values are the database's 22P02, not a fault", async () => {
    assert.equal(await failure("people", "id=eq.abc"), "22P02");
    assert.equal(await failure("people", "mood=eq.angry"), "22P02");
    assert.equal(await failure("people", "id=in.(1,x)"), "22P02");
    assert.equal(await failure("people", "name=match.("), "2201B");
    assert.equal(await failure("people", "select=name::integer"), "22P02");
  });

  for (const [query, status, code] of [
    ["people?no_such=eq.1", 400, "42703"],
    ["people?__proto__=eq.1", 400, "42703"],
    ["people?select=constructor", 400, "42703"],
    ["people?select=secret", 400, "42703"],
    ["people?secret=like.s*", 400, "42703"],
    ["people?order=secret", 400, "42703"],
    ["people?pin=like.p*", 403, "42501"],
    ["people?select=pin", 403, "42501"],
    ["people?order=pin", 403, "42501"],
    ["people?select=films!director_id(people!writer_id(pin))", 403, "42501"],
    ["people?or=(id.eq.1,pin.eq.x)", 403, "42501"],
    ["__proto__", 404, "PGRST205"],
    ["constructor", 404, "PGRST205"],
    ["vault", 404, "PGRST205"],
    ["pg_catalog.pg_authid", 404, "PGRST205"],
    ["films?select=vault(*)", 400, "PGRST200"],
    ["films?select=__proto__(*)", 400, "PGRST200"],
    ["films?select=people!vault(*)", 400, "PGRST200"],
    ["films?select=studios(*)&people.id=eq.1", 400, "PGRST108"],
    ["films?select=studios(*)&studios=eq.1", 400, "PGRST120"],
    ["films?select=id::regclass", 400, "42704"],
    ["films?select=id::oid", 400, "42704"],
    ["films?title=fts(pg_catalog.english).x", 400, "PGRST100"],
    ["films?title=fts(12345).x", 400, "42704"],
    ["films?select=id.sum()", 400, "PGRST123"],
    ["films?select=count()", 400, "PGRST123"],
    ["studios?select=films(count)", 400, "PGRST123"],
    ["films?id=is.null;drop", 400, "PGRST100"],
    ["films?id=noop.1", 400, "PGRST100"],
    ["films?id=eq.%00", 400, "PGRST100"],
    ['films?select=title->""', 400, "PGRST100"],
    ['films?select=title->"x"->>""::text', 400, "PGRST100"],
    [`films?select=title->"${"x".repeat(64)}"`, 400, "PGRST100"],
    ['films?select=studios(name->"")', 400, "PGRST100"],
    [`films?select=${"people!director_id(films!director_id(".repeat(450)}id${"))".repeat(450)}`, 400, "PGRST100"],
    [`films?select=${Array.from({ length: 900 }, (_, at) => `a${at}:studios(id)`).join()}`, 400, "PGRST100"],
    [`films?select=${"...studios(".repeat(900)}id${")".repeat(900)}`, 400, "PGRST100"],
    [`films?${"studios.".repeat(900)}id=eq.1`, 400, "PGRST100"],
    [`films?${"studios.".repeat(900)}order=id`, 400, "PGRST100"],
    [`films?or=${"and(".repeat(900)}id.eq.1${")".repeat(900)}`, 400, "PGRST100"],
    ["films?id=eq.%ed%a0%80", 400, "PGRST100"],
    ["films?id=eq.%zz", 400, "PGRST100"],
    ["films?limit=1&limit=2", 400, "PGRST100"],
  ] as const) {
    test(`refused: ${query.slice(0, 80)}`, async () => {
      const [table = "", text = ""] = query.split(/\?(.*)/s);
      assert.deepEqual(await refused({ table, query: text }), [status, code]);
    });
  }

  test("refusals say what PostgREST says, and no hidden name", async () => {
    const error = async (table: string, query = ""): Promise<unknown> => {
      const outcome = await films.run({ table, query });
      return outcome.kind === "refused" ? { ...outcome.error } : outcome;
    };
    assert.deepEqual(await error("peple"), {
      code: "PGRST205",
      message: "Could not find the table 'portal.peple' in the schema cache",
      details: null,
      hint: "Perhaps you meant the table 'portal.people'",
      status: 404,
    });
    assert.equal(((await error("vaul")) as { hint: unknown }).hint, null);
    assert.deepEqual(await error("films", "id=noop.1"), {
      code: "PGRST100",
      message: '"failed to parse filter (noop.1)" (line 1, column 1)',
      details: 'unexpected "n" expecting "not" or operator (eq, gt, ...)',
      hint: null,
      status: 400,
    });
    assert.deepEqual(await error("films", "select=vault(*)"), {
      code: "PGRST200",
      message: "Could not find a relationship between 'films' and 'vault' in the schema cache",
      details:
        "Searched for a foreign key relationship between 'films' and 'vault' in the schema 'portal', but no matches were found.",
      hint: null,
      status: 400,
    });
  });
});
