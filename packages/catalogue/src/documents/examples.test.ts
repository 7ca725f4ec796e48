import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { Ajv2020 } from "ajv/dist/2020.js";
import { createCatalogue } from "../catalogue.ts";
import type { JsonSchema, Service } from "../types.ts";
import { exampleBody, exampleData, exampleEnvelope } from "./context.ts";
import { bazaarInFull, MAX_TERMS_DEPTH, MAX_TERMS_HEADER_BYTES, paymentRequired } from "./payment-required.ts";
import { schemaSample } from "./schema-sample.ts";

const ajv = new Ajv2020({ strict: false });
const OPTION = {
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};
const CONTEXT = {
  publicUrl: "https://gw.example",
  options: [OPTION],
  version: "0.1.0",
  serves: () => false,
  relayDomain: "r",
};

function service(id: string, result?: JsonSchema, more: Readonly<Record<string, unknown>> = {}): Service {
  const operation = { name: "POST /", rpcType: "rest", description: "x", ...(result === undefined ? {} : { result }) };
  const overrides = result === undefined ? {} : { [id]: { operations: [operation as never], ...more } };
  const found = createCatalogue({ overrides }).get(id);
  assert.ok(found, id);
  return found;
}

/** A service whose own body has a schema. */
function withParams(params: JsonSchema, example: object = { query: "x" }): Service {
  const operation = { name: "POST /", rpcType: "rest", description: "x", params, example };
  const found = createCatalogue({ overrides: { search: { operations: [operation as never] } } }).get("search");
  assert.ok(found);
  return found;
}

const termsBytes = (of: Service): number =>
  Buffer.from(JSON.stringify(paymentRequired(of, CONTEXT))).toString("base64").length;

test("every built-in service has an example answer that is written for it and fits its schema", () => {
  for (const item of createCatalogue().services.values()) {
    const data = exampleData(item);
    assert.ok(data !== undefined && Object.keys(data).length > 0, item.id);
    const { method } = exampleBody(item);
    const name = typeof method === "string" ? method : "POST /";
    const { rpcType, result } = item.operations.get(name) ?? {};
    const judged = rpcType === "rest" ? data : data.result;
    if (result !== undefined) assert.ok(ajv.validate(result, judged), `${item.id}: ${ajv.errorsText()}`);
    assert.ok(!JSON.stringify(judged).includes('"text"'), `${item.id}: a guess`);
  }
});

test("an example that a schema carries is taken before any other", () => {
  const schema = { type: "object", examples: [{ found: "yes" }], properties: { found: { type: "string" } } };
  assert.deepEqual(exampleData(service("search", schema)), { found: "yes" });
});

test("an example that does not fit its own schema is not shown", () => {
  const schema = {
    type: "object",
    examples: [{ found: 5 }],
    properties: { found: { type: "string" } },
    required: ["found"],
  };
  assert.deepEqual(exampleData(service("search", schema)), { found: "text" });
});

test("an operator's own schema gets a sample; without one that fits there is none", () => {
  const schema = {
    type: "object",
    required: ["a"],
    properties: { a: { type: "array", minItems: 2, items: { enum: [7] } } },
  };
  assert.deepEqual(exampleData(service("search", schema)), { a: [7, 7] });
  const hopeless = service("search", {
    type: "object",
    required: ["a"],
    properties: { a: { pattern: "^\\d{13}Q$", type: "string" } },
  });
  assert.equal(exampleData(hopeless), undefined);
  assert.deepEqual(exampleEnvelope(hopeless).data, {});
});

test("samples fit schemas of every simple kind", () => {
  const { schema } = fc.letrec<{ schema: Readonly<Record<string, unknown>> }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4, depthIdentifier: "schema" },
      fc.constantFrom<Readonly<Record<string, unknown>>>(
        { type: "string" },
        { type: "string", minLength: 30, maxLength: 40 },
        { type: "string", maxLength: 0 },
        { type: "string", pattern: "^0x[0-9a-f]{64}$" },
        { type: "string", pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" },
        { type: "integer", minimum: 5 },
        { type: "integer", maximum: -3 },
        { type: "number", exclusiveMinimum: 3 },
        { type: ["null", "boolean"] },
        { const: { deep: [1] } },
        { enum: ["a", 1] },
        { default: 4 },
        { type: "null" },
        {},
      ),
      fc.record({ type: fc.constant("array"), items: tie("schema"), minItems: fc.nat({ max: 4 }) }),
      fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }) }),
      fc
        .dictionary(fc.constantFrom("a", "b", "constructor", "__proto__"), tie("schema"), { maxKeys: 3 })
        .map((properties) => ({ type: "object", properties, required: Object.keys(properties) })),
    ),
  }));
  fc.assert(
    fc.property(schema, (of) => {
      const sample = schemaSample(of);
      assert.ok(ajv.validate(of, sample), `${JSON.stringify(of)}: ${JSON.stringify(sample)}`);
    }),
    { numRuns: 300 },
  );
});

type Shown = {
  readonly info: {
    readonly input: { readonly body: unknown };
    readonly output: { readonly example: { readonly data: object } };
  };
  readonly schema: {
    readonly properties: {
      readonly input: { readonly properties: { readonly body: object } };
      readonly output: { readonly properties: { readonly example: Readonly<Record<string, unknown>> } };
    };
  };
};
const shownIn = (of: Service): Shown => paymentRequired(of, CONTEXT).extensions.bazaar as unknown as Shown;

test("payers send no schema of the answer back; the list of resources has all of it but its examples", () => {
  const result: JsonSchema = {
    type: "object",
    required: ["a"],
    examples: [{ a: "shown" }],
    properties: {
      a: { type: "string", description: "d".repeat(2_000), examples: ["b"] },
      examples: { type: "string" },
    },
  };
  const one = service("search", result);
  const { info, schema } = shownIn(one);
  assert.deepEqual(schema.properties.output.properties.example, { type: "object" });
  assert.deepEqual(info.output.example.data, { a: "shown" });
  const full = bazaarInFull(one) as unknown as Shown;
  assert.deepEqual(full.info, info);
  const { data } = (full.schema.properties.output.properties.example as { properties: { data: object } }).properties;
  const { examples: _shown, ...rest } = result;
  assert.deepEqual(data, {
    ...rest,
    properties: { a: { type: "string", description: "d".repeat(2_000) }, examples: { type: "string" } },
  });
});

test("terms that do not fit into a header leave out the example answer, and then the body's schema", () => {
  const huge = service("search", { type: "object", examples: [{ a: "x".repeat(5_000) }], required: ["a"] });
  assert.deepEqual(shownIn(huge).info.output.example.data, {});
  const wide: JsonSchema = {
    type: "object",
    properties: Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`p${at}`, { type: "string" }])),
  };
  const asked = withParams(wide);
  assert.deepEqual(shownIn(asked).schema.properties.input.properties.body, { type: "object" });
  assert.notDeepEqual(shownIn(asked).info.input.body, {});
  for (const one of [huge, asked]) assert.ok(termsBytes(one) <= MAX_TERMS_HEADER_BYTES);
});

test("attack on ourselves: a schema or an example so deep that no payment could carry it back is left out", () => {
  const nested = (depth: number, leaf: object, key: string): object =>
    depth === 0 ? leaf : { [key]: nested(depth - 1, leaf, key) };
  const deepBody = withParams({ type: "object", ...nested(30, { type: "string" }, "not") });
  const deepRequest = withParams({ type: "object" }, nested(30, {}, "a"));
  const deepAnswer = service("search", { type: "object", examples: [nested(30, {}, "a")] });
  for (const one of [deepBody, deepRequest, deepAnswer]) {
    const terms = JSON.stringify(paymentRequired(one, CONTEXT));
    assert.ok(parseJson(terms, { maxDepth: MAX_TERMS_DEPTH }).ok);
  }
  assert.notDeepEqual(shownIn(deepBody).info.input.body, {});
  assert.deepEqual(shownIn(deepRequest).info.input.body, {});
});

test("a long description is cut after a word, and a pair of surrogates is not", () => {
  const described = (description: string): string =>
    paymentRequired({ ...service("search"), description }, CONTEXT).resource.description;
  assert.equal(described("word ".repeat(100).trim()), "word ".repeat(100).trim());
  const cut = described("word ".repeat(200).trim());
  assert.ok(cut.length <= 500 && cut.endsWith("word…"), cut.slice(-10));
  const wide = described("🌍".repeat(400));
  assert.ok(wide.length <= 500 && wide.isWellFormed());
});
