import assert from "node:assert/strict";
import { test } from "node:test";
import fastify from "fastify";
import {
  type DiscoveryQuery,
  type DiscoverySearchQuery,
  discoveryRoutes,
  type FacilitatorDiscovery,
} from "./discovery.ts";

interface Rig extends AsyncDisposable {
  readonly url: string;
  readonly listed: DiscoveryQuery[];
  readonly searched: DiscoverySearchQuery[];
}

async function startRig(isKnown = true): Promise<Rig> {
  const listed: DiscoveryQuery[] = [];
  const searched: DiscoverySearchQuery[] = [];
  const discovery: FacilitatorDiscovery = {
    list(query) {
      listed.push(query);
      return { items: [{ resource: "r" }], total: 9 };
    },
    search(query) {
      searched.push(query);
      return { resources: [{ resource: "r" }], partialResults: true, pagination: { limit: 1, cursor: "1" } };
    },
  };
  const app = fastify();
  discoveryRoutes(app, (_request, reply, code) => reply.status(400).send({ code }), isKnown ? discovery : undefined);
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  return { url, listed, searched, [Symbol.asyncDispose]: () => app.close() };
}

test("queries are handed on as they are meant, large limits capped", async () => {
  await using rig = await startRig();
  const get = async (path: string): Promise<unknown> => (await fetch(rig.url + path)).json();
  assert.deepEqual(await get("/discovery/resources?limit=5000&offset=2&network=eip155%3A1&z=1"), {
    x402Version: 2,
    items: [{ resource: "r" }],
    pagination: { limit: 1_000, offset: 2, total: 9 },
  });
  assert.deepEqual(rig.listed, [{ network: "eip155:1", limit: 1_000, offset: 2 }]);
  await get("/discovery/resources");
  assert.deepEqual(rig.listed[1], { limit: 100, offset: 0 });
  assert.deepEqual(await get("/discovery/search?query=a+b&limit=1&cursor=7&type=http"), {
    x402Version: 2,
    resources: [{ resource: "r" }],
    partialResults: true,
    pagination: { limit: 1, cursor: "1" },
  });
  assert.deepEqual(rig.searched, [{ query: "a b", limit: 1, cursor: "7", type: "http" }]);
});

test("bad queries reach nobody", async () => {
  await using rig = await startRig();
  const bad = ["resources?limit=0", "resources?offset=-1", "resources?type=a&type=b", "resources?limit=1&limit=2"];
  const searches = ["search", "search?query=%20", "search?query=a&limit=x", `search?query=${"a".repeat(513)}`];
  for (const path of [...bad, ...searches]) {
    const answer = await fetch(`${rig.url}/discovery/${path}`);
    assert.equal(answer.status, 400, path);
    assert.equal(answer.headers.get("access-control-allow-origin"), "*");
  }
  assert.deepEqual([rig.listed, rig.searched], [[], []]);
});

test("a facilitator that knows nothing finds nothing", async () => {
  await using rig = await startRig(false);
  const answers = await Promise.all(
    ["resources", "search?query=a"].map(async (path) => (await fetch(`${rig.url}/discovery/${path}`)).json()),
  );
  assert.deepEqual(answers, [
    { x402Version: 2, items: [], pagination: { limit: 100, offset: 0, total: 0 } },
    { x402Version: 2, resources: [], partialResults: false, pagination: { limit: 0, cursor: null } },
  ]);
});
