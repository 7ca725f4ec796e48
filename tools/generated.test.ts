import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ERRORS } from "@turnpike/base";
import { configSchemaJson } from "@turnpike/config";
import { dashboardFiles } from "./dashboards.ts";
import { errorsDocument } from "./errors-doc.ts";
import { relayMethodsDocument } from "./relay-methods-doc.ts";
import { readText } from "./sources.ts";

suite("generated files", () => {
  test("docs/errors.md has every code once, and is what the registry says (else: npm run generate)", () => {
    const text = readText("docs/errors.md");
    assert.equal(text, errorsDocument());
    for (const code of Object.keys(ERRORS)) {
      assert.equal(text.split(`| \`${code}\` |`).length, 2, code);
    }
  });

  test("docs/relay-methods.md is what the table says (else: npm run generate)", () => {
    assert.equal(readText("docs/relay-methods.md"), relayMethodsDocument());
  });

  test("config.schema.json is what the schema says (else: npm run generate)", () => {
    assert.equal(readText("config.schema.json"), configSchemaJson());
  });

  test("ops/dashboards is what the table says (else: npm run generate)", () => {
    for (const { path, text } of dashboardFiles()) assert.equal(readText(path), text, path);
  });
});
