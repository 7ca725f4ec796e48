import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue } from "./catalogue.ts";
import { withRegistered } from "./registered.ts";

const MINE = { id: "my-api", ownerAddress: "pokt1mine" };

test("a registered service is on the free relay alone, without family, method or a text of its owner's", () => {
  const base = createCatalogue({});
  const made = withRegistered(base, [MINE]);
  const { services } = made;
  assert.equal(services.size, base.services.size + 1);
  const service = made.get("my-api");
  assert.deepEqual(
    [service?.free, service?.paid, service?.families, service?.operations.size, service?.name],
    [true, false, [], 0, "my-api"],
  );
  for (const [id, known] of base.services)
    assert.equal(services.get(id), known, "known services stay the same objects");
});

test("what the catalogue or the operator says is not replaced, also where it says that there is none", () => {
  const base = createCatalogue({ overrides: { eth: { enabled: false } }, sells: false });
  const taken = ["eth", "document-digest", "own"].map((id) => ({ id, ownerAddress: "pokt1x" }));
  const { services } = withRegistered(base, taken, { own: new Set(["own"]) });
  assert.deepEqual([...services.keys()], [...base.services.keys()]);
});

test("ids that are no host label or are reserved are left out", () => {
  const base = createCatalogue({});
  const ids = ["My-Api", "my_api", "-a", "a-", "a.b", "a/b", "", "key", "x".repeat(64), "a\r\nx-y: 1", "a\n", "ａ"];
  ids.push("xn--80ak6aa92e", "constructor", "__proto__", "www", "wpad", "autodiscover", "admin", "unknown", "*");
  const registered = ids.map((id) => ({ id, ownerAddress: "pokt1x" }));
  assert.equal(withRegistered(base, registered).services.size, base.services.size);
});

test("an operator's service without a family says of each operation that it reads", () => {
  const definition = (operation: object) => ({
    id: "my-api",
    name: "Mine",
    description: "What it answers.",
    category: "web" as const,
    families: [],
    operations: [{ name: "GET /v1/things", rpcType: "rest" as const, description: "", ...operation }],
  });
  const made = createCatalogue({ added: [definition({ read: true })] });
  assert.deepEqual([made.get("my-api")?.paid, made.get("my-api")?.families], [true, []]);
  assert.throws(() => createCatalogue({ added: [definition({})] }), /GET \/v1\/things is not known as a read/);
  assert.throws(
    () => createCatalogue({ added: [{ ...definition({}), operations: [] }] }),
    /operations: is required for this family/,
  );
});
