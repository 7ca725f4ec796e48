import assert from "node:assert/strict";
import test from "node:test";
import { serviceDefinitionSchema } from "@turnpike/catalogue";
import { configSchemaJson } from "@turnpike/config";

/** The allowed values of every `families` in a JSON Schema. */
function familiesIn(schema: unknown): readonly string[][] {
  const found: string[][] = [];
  JSON.stringify(schema, (key, value: unknown) => {
    if (key === "families") {
      const { items } = value as { items: { enum: string[] } };
      found.push([...items.enum].sort());
    }
    return value;
  });
  return found;
}

test("a service of the configuration may have every family that the catalogue knows, and no other", () => {
  const [known] = familiesIn(serviceDefinitionSchema);
  const configured = familiesIn(JSON.parse(configSchemaJson()));
  assert.ok(known !== undefined && known.length > 0);
  assert.ok(configured.length > 0);
  for (const families of configured) assert.deepEqual(families, known);
});
