import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue } from "./catalogue.ts";
import { withRegistered } from "./registered.ts";
import { withSale } from "./sale.ts";

test("what the rule does not name is not sold, and stays on the free relay", () => {
  const base = createCatalogue({ overrides: { solana: { paid: false }, near: { paid: false } } });
  const made = withSale(base, (id) => id === "eth" || id === "solana");
  assert.equal(made.get("eth"), base.get("eth"));
  assert.equal(made.get("solana"), base.get("solana"));
  assert.equal(made.get("near"), base.get("near"));
  assert.equal(made.get("solana")?.paid, false, "a rule sells nothing that the operator has off sale");
  const sold = [...made.services.values()].filter(({ paid }) => paid).map(({ id }) => id);
  assert.deepEqual(sold, ["eth"]);
  const osmosis = base.get("osmosis");
  assert.ok(osmosis !== undefined);
  assert.deepEqual(made.get("osmosis"), { ...osmosis, paid: false });
  assert.deepEqual([...made.services.keys()], [...base.services.keys()]);
});

test("no rule sells a service that only the chain has", () => {
  const base = withRegistered(createCatalogue({}), [{ id: "my-api", ownerAddress: "pokt1owner" }]);
  assert.equal(withSale(base, () => true).get("my-api")?.paid, false);
});
