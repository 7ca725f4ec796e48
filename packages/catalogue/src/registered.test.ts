import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue } from "./catalogue.ts";
import { servicesDocument } from "./documents/listings.ts";
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

test("ids that the chain cannot have or that are reserved are left out, in any letter case", () => {
  const base = createCatalogue({});
  const ids = [
    "a.b",
    "a/b",
    "a b",
    "",
    "key",
    "KEY",
    "x".repeat(43),
    "a\r\nx-y: 1",
    "a\n",
    "ａ",
    "Eth",
    "ETH",
    "K\u212ay",
  ];
  ids.push("xn--80ak6aa92e", "XN--80ak6aa92e", "www", "WWW", "wpad", "autodiscover", "Admin", "unknown", "Other", "*");
  ids.push(...Object.getOwnPropertyNames(Object.prototype));
  const registered = ids.map((id) => ({ id, ownerAddress: "pokt1x" }));
  assert.equal(withRegistered(base, registered).services.size, base.services.size);
});

test("attack: an id in other letter case is not served in the place of the operator's or the catalogue's", () => {
  const base = createCatalogue({ overrides: { eth: { enabled: false } }, sells: false });
  const registered = ["Mine", "MINE", "Eth", "Base", "Document-Digest"].map((id) => ({ id, ownerAddress: "pokt1x" }));
  const { services } = withRegistered(base, registered, { own: new Set(["mine"]) });
  assert.deepEqual([...services.keys()], [...base.services.keys()]);
});

test("an id with capitals or underscores, which is no host label, is on the free relay by path", () => {
  const base = createCatalogue({});
  const ids = ["My-Api", "my_api", "F00C", "-a", "a-", "_"];
  const made = withRegistered(
    base,
    ids.map((id) => ({ id, ownerAddress: "pokt1x" })),
  );
  const context = { publicUrl: "https://gw.example:8443", options: [], version: "1", relayDomain: "relay.example" };
  const listed = servicesDocument(made, { ...context, updatedAt: "", serves: () => true });
  const urls = new Map(listed.map(({ id, relayUrl }) => [String(id), relayUrl]));
  for (const id of ids) {
    assert.deepEqual([made.get(id)?.free, made.get(id)?.paid], [true, false]);
    assert.equal(urls.get(id), `https://gw.example:8443/relay/${id}`);
  }
  assert.equal(urls.get("eth"), "https://eth.relay.example:8443");
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
