import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { PostgrestClient } from "@supabase/postgrest-js";
import { type FilmsDatabase, startFilms } from "../../test/films-database.ts";
import type { Preferences } from "../types.ts";

/** Just enough of HTTP to let the client speak to the planner; the server's own tests have the rest. */
function fetchOf(films: () => FilmsDatabase): typeof globalThis.fetch {
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const headers = new Headers(init?.headers);
    const prefer = new Map(
      (headers.get("prefer") ?? "").split(",").map((part) => part.trim().split("=") as [string, string]),
    );
    const isObject = headers.get("accept")?.includes("object") === true;
    const text = typeof init?.body === "string" ? init.body : undefined;
    const outcome = await films().run({
      verb: (init?.method ?? "GET") as "GET",
      table: decodeURIComponent(url.pathname.slice(1)),
      query: url.search.slice(1),
      media: headers.get("accept") === "text/csv" ? "csv" : "json",
      body: text === undefined ? undefined : (JSON.parse(text) as unknown),
      prefer: {
        return: prefer.get("return") as Preferences["return"],
        count: prefer.get("count") as Preferences["count"],
        resolution: prefer.get("resolution") as Preferences["resolution"],
        missing: prefer.get("missing") as Preferences["missing"],
      },
    });
    if (outcome.kind === "refused") return Response.json(outcome.error, { status: outcome.error.status });
    if (outcome.kind === "failed") return Response.json({ code: outcome.code }, { status: 400 });
    const total = outcome.total ?? outcome.planned ?? "*";
    const body = isObject ? outcome.body.slice(1, -1) : outcome.body;
    return new Response(init?.method === "HEAD" || body === "" ? null : body, {
      status: body === "" ? 204 : 200,
      headers: { "content-range": `0-0/${total}`, "content-type": headers.get("accept") ?? "application/json" },
    });
  };
}

suite("the calls of @supabase/postgrest-js", () => {
  let films: FilmsDatabase;
  before(async () => {
    films = await startFilms();
  });
  after(() => films?.[Symbol.asyncDispose]());
  const client = new PostgrestClient("http://portal.test", { fetch: fetchOf(() => films) });
  const data = async (call: PromiseLike<{ data: unknown; error: unknown }>): Promise<unknown> => {
    const { data: got, error } = await call;
    assert.equal(error, null, JSON.stringify(error));
    return got;
  };

  test("reads: filters, logic, order, ranges, one row", async () => {
    const people = () => client.from("people");
    assert.deepEqual(await data(people().select("id").in("name", ["Agnès", "Akira", "a,b(c)"]).order("id")), [
      { id: 1 },
      { id: 2 },
    ]);
    assert.deepEqual(await data(people().select("id").or("id.eq.1,and(id.gt.1,country.eq.jp)").order("id")), [
      { id: 1 },
      { id: 2 },
    ]);
    assert.deepEqual(await data(people().select("id").match({ country: "fr", active: true })), [{ id: 1 }]);
    assert.deepEqual(await data(people().select("id").not("country", "is", null).ilike("name", "a%").gte("id", 2)), [
      { id: 2 },
    ]);
    assert.deepEqual(await data(people().select("id").contains("tags", ["a"]).overlaps("tags", ["b"])), [{ id: 1 }]);
    assert.deepEqual(await data(people().select("id").containedBy("tags", ["b"])), [{ id: 2 }]);
    assert.deepEqual(await data(people().select("id").contains("data", { n: null })), [{ id: 1 }]);
    assert.deepEqual(await data(people().select("id").likeAnyOf("name", ["Ag%", "Ak%"]).order("id")), [
      { id: 1 },
      { id: 2 },
    ]);
    assert.deepEqual(await data(people().select("id").filter("data->a->b->>0", "eq", "3")), [{ id: 2 }]);
    assert.deepEqual(
      await data(people().select("id").textSearch("name", "akira", { type: "websearch", config: "english" })),
      [{ id: 2 }],
    );
    assert.deepEqual(
      await data(people().select("id").order("score", { ascending: false, nullsFirst: false }).range(0, 1)),
      [{ id: 2 }, { id: 1 }],
    );
    assert.deepEqual(await data(people().select("id, name").eq("id", 1).single()), { id: 1, name: "Agnès" });
    assert.equal(await data(people().select().eq("id", 9).maybeSingle()), null);
    assert.equal(await data(people().select("id,name").eq("id", 1).csv()), "id,name\n1,Agnès");
  });

  test("counts", async () => {
    const counted = await client.from("films").select("*", { count: "exact" }).limit(1);
    assert.deepEqual([counted.count, counted.data?.length], [4, 1]);
    const head = await client.from("films").select("*", { count: "exact", head: true }).eq("studio_id", 2);
    assert.deepEqual([head.count, head.error], [2, null]);
    assert.equal((await client.from("films").select("id", { count: "planned" }).eq("id", 1)).count, 1);
  });

  test("embedding with filters, order and limits of its own", async () => {
    const studios = client
      .from("studios")
      .select("name, films!inner(title, director:people!films_director_id_fkey(name))")
      .eq("films.director_id", 2)
      .order("title", { referencedTable: "films", ascending: false })
      .limit(1, { referencedTable: "films" })
      .or("title.eq.Ran,title.eq.Ikiru", { referencedTable: "films" });
    assert.deepEqual(await data(studios), [{ name: "Toho", films: [{ title: "Ran", director: { name: "Akira" } }] }]);
    const related = client
      .from("films")
      .select("id, studios(name)")
      .not("studios", "is", null)
      .order("studios(name)", { ascending: false })
      .order("id");
    assert.deepEqual(await data(related), [
      { id: 2, studios: { name: "Toho" } },
      { id: 3, studios: { name: "Toho" } },
      { id: 1, studios: { name: "Ciné" } },
    ]);
  });

  test("writes: one, many, defaults, upserts, updates, deletes", async () => {
    const insert = client
      .from("films")
      .insert({ id: 9, title: "Neu", studio_id: 1 })
      .select("id, studios(name)")
      .single();
    assert.deepEqual(await data(insert), { id: 9, studios: { name: "Ciné" } });
    assert.equal(await data(client.from("films").insert({ id: 9, title: "Neu" })), null);
    const many = client
      .from("people")
      .insert(
        [
          { id: 70, name: "A" },
          { id: 71, name: "B", tags: ["t"] },
        ],
        { defaultToNull: false },
      )
      .select("id,tags");
    assert.deepEqual(await data(many), [
      { id: 70, tags: ["new"] },
      { id: 71, tags: ["t"] },
    ]);
    const upsert = client
      .from("studios")
      .upsert([
        { id: 1, name: "X" },
        { id: 5, name: "Y" },
      ])
      .select()
      .order("id");
    assert.deepEqual(await data(upsert), [
      { id: 1, name: "X" },
      { id: 5, name: "Y" },
    ]);
    const ignore = client
      .from("studios")
      .upsert({ id: 6, name: "Toho" }, { onConflict: "name", ignoreDuplicates: true })
      .select();
    assert.deepEqual(await data(ignore), []);
    assert.deepEqual(await data(client.from("films").update({ title: "Z" }).eq("id", 1).select("title")), [
      { title: "Z" },
    ]);
    assert.deepEqual(await data(client.from("films").delete().in("id", [3, 4]).select("id").order("id")), [
      { id: 3 },
      { id: 4 },
    ]);
    assert.equal((await client.from("films").delete()).error?.code, "FILTER_REQUIRED");
    assert.equal((await client.from("films").update({ title: "all" })).error?.code, "FILTER_REQUIRED");
  });

  test("ambiguity is an error with its candidates", async () => {
    const { error, status } = await client.from("films").select("people(name)");
    const details: unknown = error?.details;
    assert.deepEqual([status, error?.code, Array.isArray(details) && details.length], [300, "PGRST201", 3]);
  });
});
