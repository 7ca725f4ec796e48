import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ERRORS } from "@turnpike/base";
import { configSchemaJson } from "@turnpike/config";
import { errorsDocument } from "./errors-doc.ts";
import { readText } from "./sources.ts";

suite("generated files", () => {
  test("docs/errors.md has every code once, and is what the registry says (else: npm run generate)", () => {
    const text = readText("docs/errors.md");
    assert.equal(text, errorsDocument());
    for (const code of Object.keys(ERRORS)) {
      assert.equal(text.split(`| \`${code}\` |`).length, 2, code);
    }
  });

  test("config.schema.json is what the schema says (else: npm run generate)", () => {
    assert.equal(readText("config.schema.json"), configSchemaJson());
  });
});
