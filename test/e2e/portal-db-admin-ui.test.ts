import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { FIXTURE, startPortalRig } from "./portal-rig.ts";

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  readonly json: unknown;
}

/** The calls of react-admin that this test makes. */
interface Provider {
  getList(resource: string, params: object): Promise<{ readonly data: readonly Row[]; readonly total: number }>;
  getOne(resource: string, params: object): Promise<{ readonly data: Row }>;
  getMany(resource: string, params: object): Promise<{ readonly data: readonly Row[] }>;
  getManyReference(
    resource: string,
    params: object,
  ): Promise<{ readonly data: readonly Row[]; readonly total: number }>;
  create(resource: string, params: object): Promise<{ readonly data: Row }>;
  update(resource: string, params: object): Promise<{ readonly data: Row }>;
  updateMany(resource: string, params: object): Promise<{ readonly data: readonly unknown[] }>;
  delete(resource: string, params: object): Promise<{ readonly data: Row }>;
  deleteMany(resource: string, params: object): Promise<{ readonly data: readonly unknown[] }>;
}
type Row = Readonly<Record<string, unknown>> & { readonly id: string };

// Its module for import names files without their endings, which Node does not take.
const { default: makeProvider } = createRequire(import.meta.url)("@raphiniert/ra-data-postgrest") as {
  readonly default: (config: object) => Provider;
};

test("ra-data-postgrest, as it is: lists with counts, one, many, create, update, delete", async () => {
  await using rig = await startPortalRig();
  const token = await rig.token("admin");
  /** As react-admin's own `fetchJson`. */
  const httpClient = async (url: string, options: RequestInit & { headers?: Headers } = {}): Promise<Answer> => {
    const headers = new Headers(options.headers);
    headers.set("authorization", `Bearer ${token}`);
    if (!headers.has("accept")) headers.set("accept", "application/json");
    if (options.body !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
    const answer = await fetch(url, { ...options, headers });
    const body = await answer.text();
    assert.ok(answer.ok, `${options.method ?? "GET"} ${url}: ${answer.status} ${body}`);
    return { status: answer.status, headers: answer.headers, body, json: body === "" ? undefined : JSON.parse(body) };
  };
  const provider = makeProvider({
    apiUrl: rig.url,
    httpClient,
    defaultListOp: "eq",
    primaryKeys: new Map([
      ["portal_applications", ["portal_application_id"]],
      ["portal_account_rbac", ["id"]],
      ["networks", ["network_id"]],
    ]),
    schema: () => "public",
  });
  const list = { pagination: { page: 1, perPage: 2 }, sort: { field: "network_id", order: "ASC" }, filter: {} };
  const networks = await provider.getList("networks", list);
  assert.deepEqual([networks.total, networks.data.map(({ id }) => id)], [3, ["pocket", "pocket-alpha"]]);
  const made = await provider.create("portal_applications", {
    data: { portal_account_id: FIXTURE, portal_application_name: "of an admin" },
  });
  const { id } = made.data;
  assert.equal((await provider.getOne("portal_applications", { id })).data.portal_application_name, "of an admin");
  const changed = await provider.update("portal_applications", {
    id,
    data: { emoji: "🛣" },
    previousData: { id, emoji: null },
  });
  assert.equal(changed.data.emoji, "🛣");
  const other = await provider.create("portal_applications", { data: { portal_account_id: FIXTURE } });
  const ids = [id, other.data.id];
  assert.equal((await provider.getMany("portal_applications", { ids })).data.length, 2);
  const referenced = await provider.getManyReference("portal_applications", {
    target: "portal_account_id",
    id: FIXTURE,
    ...list,
    sort: { field: "portal_application_id", order: "DESC" },
  });
  assert.equal(referenced.total, 2);
  await provider.updateMany("portal_applications", { ids, data: { emoji: "x" } });
  const filtered = await provider.getList("portal_applications", {
    ...list,
    sort: { field: "portal_application_id", order: "ASC" },
    filter: { "emoji@eq": "x" },
  });
  assert.equal(filtered.total, 2);
  await provider.delete("portal_applications", { id, previousData: { id } });
  await provider.deleteMany("portal_applications", { ids: [other.data.id] });
  assert.deepEqual(await rig.sql("select 1 from portal_applications"), []);
});
