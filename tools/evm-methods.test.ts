import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue } from "@turnpike/catalogue";
import { PASSED_EVM_METHODS } from "@turnpike/localnet";

// `localnet` and `catalogue` are of one level, so that neither can import the list of the other.
test("the guard of the local chain passes every operation that the catalogue has for it", () => {
  const local = [...createCatalogue().services.values()].filter(({ id }) => id.startsWith("anvil"));
  assert.deepEqual(
    local.map(({ id }) => String(id)),
    ["anvil", "anvilws"],
  );
  const names = local.flatMap(({ operations }) => [...operations.keys()]);
  assert.ok(names.length > 50);
  assert.deepEqual(
    names.filter((name) => !PASSED_EVM_METHODS.has(name)),
    [],
  );
});
