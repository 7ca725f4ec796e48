import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { createCatalogue } from "../catalogue.ts";
import type { JsonSchema, Service } from "../types.ts";
import { exampleBody, exampleData, exampleEnvelope } from "./context.ts";
import { MAX_TERMS_HEADER_BYTES, paymentRequired } from "./payment-required.ts";
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

test("what does not fit into the header is left out, the descriptions first", () => {
  const result = (length: number): JsonSchema => ({
    type: "object",
    required: ["a"],
    properties: { a: { type: "string", description: "d".repeat(length) }, description: { type: "string" } },
  });
  const example = (of: Service): Readonly<Record<string, unknown>> => {
    const { schema } = paymentRequired(of, CONTEXT).extensions.bazaar as unknown as {
      schema: { properties: { output: { properties: { example: Readonly<Record<string, unknown>> } } } };
    };
    return schema.properties.output.properties.example;
  };
  const whole = service("search", result(40));
  assert.ok(JSON.stringify(example(whole)).includes("dddd"));
  const shorter = service("search", result(2_000));
  assert.ok(!JSON.stringify(example(shorter)).includes("dddd"));
  const { data } = (example(shorter) as { properties: { data: { properties: object } } }).properties;
  assert.deepEqual(Object.keys(data.properties), ["a", "description"], "a property is no annotation");
  const huge = service("search", { type: "object", examples: [{ a: "x".repeat(5_000) }], required: ["a"] });
  assert.deepEqual(example(huge), { type: "object" });
  for (const one of [whole, shorter, huge]) assert.ok(termsBytes(one) <= MAX_TERMS_HEADER_BYTES);
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
