import assert from "node:assert/strict";
import { test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { PaymentRequiredV2Schema } from "@x402/core/schemas";
import {
  type DiscoveryExtension,
  sanitizeResourceServiceMetadata,
  validateDiscoveryExtension,
} from "@x402/extensions/bazaar";
import { Ajv2020 } from "ajv/dist/2020.js";
import { createCatalogue } from "../catalogue.ts";
import { CATEGORIES } from "../override-schema.ts";
import type { Service } from "../types.ts";
import type { DocumentContext } from "./context.ts";
import { discoveryResources } from "./discovery.ts";
import { iconSvg } from "./icon.ts";
import { servicesDocument, wellKnownX402 } from "./listings.ts";
import { llmsText } from "./llms.ts";
import { openApiDocument } from "./openapi.ts";
import { toOpenApiSchema } from "./openapi-schema.ts";
import { MAX_TERMS_HEADER_BYTES, paymentRequired } from "./payment-required.ts";

const OPTION = {
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};
const CONTEXT: DocumentContext = {
  publicUrl: "https://gw.example",
  options: [OPTION, { ...OPTION, network: "eip155:8453", extra: { name: "USD Coin", version: "2" } }],
  version: "0.1.0",
  serves: (id) => id === "eth",
  relayDomain: "relay.example",
  updatedAt: "2026-11-21T00:00:00.000Z",
};
const catalogue = createCatalogue();
const all = [...catalogue.services.values()];

function service(id: string): Service {
  const found = catalogue.get(id);
  assert.ok(found, id);
  return found;
}

type Route = {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly "x-payment-info": unknown;
  readonly responses: Readonly<Record<string, { readonly $ref?: string }>>;
  readonly requestBody: {
    readonly required: boolean;
    readonly content: {
      readonly "application/json": { readonly schema: { readonly $ref: string }; readonly examples: unknown };
    };
  };
};
type Document = {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, { readonly post: Route }>>;
  readonly components: { readonly schemas: Readonly<Record<string, Record<string, unknown>>> };
};
const asJson = <T>(value: unknown): T => JSON.parse(JSON.stringify(value)) as T;
const openApi = (from = catalogue): Document => asJson(openApiDocument(from, CONTEXT));

test("the OpenAPI document passes a validator", async () => {
  const { valid, errors } = await new Validator().validate(
    asJson<Record<string, unknown>>(openApiDocument(catalogue, CONTEXT)),
  );
  assert.ok(valid, JSON.stringify(errors)?.slice(0, 500));
});

test("the OpenAPI document has one path a service, as the catalogue says", () => {
  const document = openApi();
  assert.deepEqual([document.openapi, document.info.version], ["3.0.3", "1.1.0"]);
  assert.deepEqual(
    Object.keys(document.paths),
    all.map(({ id }) => `/v1/${id}`),
  );
  for (const item of all) {
    const post = document.paths[`/v1/${item.id}`]?.post;
    assert.ok(post);
    assert.equal(post.operationId, item.operationId);
    assert.deepEqual(post.tags, item.tags);
    assert.deepEqual(post["x-payment-info"], {
      price: { mode: "fixed", currency: "USD", amount: "0.005000" },
      protocols: ["x402"],
      minPrice: "0.005000",
      maxPrice: "0.005000",
    });
    assert.equal(post.requestBody.required, true);
    for (const status of ["200", "400", "402", "503"]) assert.ok(post.responses[status], `${item.id} ${status}`);
    assert.equal(post.responses["422"] !== undefined, item.id === "search", item.id);
  }
});

test("the OpenAPI document names every method and path of a network", () => {
  const document = openApi();
  for (const item of all.filter(({ operations }) => !operations.has("POST /"))) {
    const name = document.paths[`/v1/${item.id}`]?.post.requestBody.content["application/json"].schema.$ref ?? "";
    const schema = document.components.schemas[name.slice("#/components/schemas/".length)];
    const shown = JSON.stringify(schema?.properties);
    const missing = [...item.operations.keys()].filter((operation) => !shown.includes(operation));
    assert.deepEqual(missing, [], item.id);
  }
});

test("a service that is not sold is not in the documents of what is sold", () => {
  const without = createCatalogue({ overrides: { base: { paid: false }, hey: { enabled: false } } });
  assert.ok(!("/v1/base" in openApi(without).paths) && !("/v1/hey" in openApi(without).paths));
  assert.ok(!wellKnownX402(without, CONTEXT).resources.includes("https://gw.example/v1/base"));
  const base = servicesDocument(without, CONTEXT).find(({ id }) => id === "base");
  assert.deepEqual(
    [base?.paid, base?.url, base?.rails, base?.relayUrl],
    [false, undefined, [], "https://base.relay.example"],
  );
});

test("schemas of draft 2020-12 become ones of OpenAPI 3.0.3 that refuse no more", () => {
  assert.deepEqual(toOpenApiSchema({ anyOf: [{ type: "null" }, { type: "string" }] }), {
    nullable: true,
    type: "string",
  });
  assert.deepEqual(toOpenApiSchema({ type: ["string", "null"] }), { nullable: true, type: "string" });
  assert.deepEqual(toOpenApiSchema({ const: 1 }), { enum: [1] });
  assert.deepEqual(toOpenApiSchema({ type: "array", prefixItems: [{ type: "string" }] }), { type: "array", items: {} });
  assert.deepEqual(toOpenApiSchema({ type: "number", exclusiveMinimum: 0 }), {
    type: "number",
    minimum: 0,
    exclusiveMinimum: true,
  });
  assert.deepEqual(toOpenApiSchema(true), {});
  assert.deepEqual(toOpenApiSchema({ type: "object", patternProperties: { a: {} }, $comment: "x" }), {
    type: "object",
  });
});

test("the terms of every route pass the reference schemas", () => {
  const ajv = new Ajv2020({ strict: false });
  for (const item of all) {
    const terms = asJson<Record<string, unknown>>(paymentRequired(item, CONTEXT));
    const parsed = PaymentRequiredV2Schema.safeParse(terms);
    assert.ok(parsed.success, item.id);
    assert.deepEqual(parsed.data.resource, terms.resource, item.id);
    const { bazaar } = terms.extensions as { readonly bazaar: DiscoveryExtension };
    assert.deepEqual(validateDiscoveryExtension(bazaar), { valid: true }, item.id);
    const { serviceName, tags, iconUrl } = terms.resource as Record<string, unknown>;
    assert.deepEqual(
      sanitizeResourceServiceMetadata(terms.resource as Parameters<typeof sanitizeResourceServiceMetadata>[0]),
      { serviceName, tags, iconUrl },
      item.id,
    );
    const refused = ajv.compile(bazaar.schema)({ input: { ...bazaar.info.input, more: 1 } });
    assert.equal(refused, false, `${item.id}: another input field`);
  }
});

test("the terms are those of spec 2.2", () => {
  for (const item of all) {
    const { x402Version, error, resource, accepts, extensions } = paymentRequired(item, CONTEXT);
    assert.deepEqual([x402Version, error, accepts], [2, "Payment required", CONTEXT.options]);
    assert.equal(resource.url, `https://gw.example/v1/${item.id}`);
    assert.equal(resource.iconUrl, `https://gw.example/icons/${item.id}.svg`);
    assert.equal(resource.mimeType, "application/json");
    assert.match(resource.serviceName, /^[!-~]([ -~]{0,30}[!-~])?$/);
    assert.ok(resource.description.length >= 1 && resource.description.length <= 500);
    assert.ok(resource.tags.includes(item.category) && resource.tags.length <= 5);
    assert.ok(resource.tags.every((tag) => /^[ -~]{1,32}$/.test(tag)));
    const { info } = asJson<{ info: { output: { example: { portal: unknown } } } }>(extensions.bazaar);
    assert.deepEqual(info.output.example.portal, {
      provenance: "third-party-supplier",
      serviceId: item.id,
      schemaCheck: "passed",
    });
  }
  assert.deepEqual(paymentRequired(service("eth"), CONTEXT).extensions.bazaar, {
    info: {
      input: { type: "http", method: "POST", bodyType: "json", body: { method: "eth_blockNumber", params: [] } },
      output: {
        type: "json",
        example: {
          portal: { provenance: "third-party-supplier", serviceId: "eth", schemaCheck: "passed" },
          data: { jsonrpc: "2.0", id: 1, result: "0x1b4" },
        },
      },
    },
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        input: {
          type: "object",
          properties: {
            type: { type: "string", const: "http" },
            method: { type: "string", enum: ["POST", "PUT", "PATCH"] },
            bodyType: { type: "string", enum: ["json", "form-data", "text"] },
            body: { type: "object", properties: { method: { type: "string" }, params: {} }, required: ["method"] },
          },
          required: ["type", "method", "bodyType", "body"],
          additionalProperties: false,
        },
        output: {
          type: "object",
          properties: { type: { type: "string" }, example: { type: "object" } },
          required: ["type"],
        },
      },
      required: ["input"],
    },
  });
});

test("the terms fit into a header, also when an operator's schema does not", () => {
  const length = (item: Service): number =>
    Buffer.from(JSON.stringify(paymentRequired(item, CONTEXT))).toString("base64").length;
  for (const item of all) assert.ok(length(item) <= MAX_TERMS_HEADER_BYTES, `${item.id}: ${length(item)}`);
  const params = { type: "object", description: "long ".repeat(1_000) };
  const wide = createCatalogue({
    overrides: { search: { operations: [{ name: "POST /", rpcType: "rest", description: "x", params }] } },
  }).get("search");
  assert.ok(wide && length(wide) <= MAX_TERMS_HEADER_BYTES);
});

test("the cause and the options of a service are taken as given", () => {
  const context = { ...CONTEXT, options: ({ id }: Service) => (id === "eth" ? [OPTION] : []) };
  const terms = paymentRequired(service("eth"), context, "PAYMENT_EXPIRED: too late");
  assert.equal(terms.error, "PAYMENT_EXPIRED: too late");
  assert.deepEqual(terms.accepts, [OPTION]);
});

test("services.json lists every service with what an agent needs", () => {
  const items = servicesDocument(catalogue, CONTEXT);
  assert.ok(Array.isArray(items));
  assert.deepEqual(
    items.map(({ id }) => id),
    all.map(({ id }) => id),
  );
  for (const [index, item] of items.entries()) {
    const own = all[index];
    assert.ok(own);
    assert.equal(item.serves, item.id === "eth");
    assert.deepEqual(item.price, { amount: "0.005000", currency: "USD" });
    assert.deepEqual(item.methods, [...own.operations.keys()]);
    assert.deepEqual(item.rails[0], { scheme: "exact", network: OPTION.network, asset: OPTION.asset, amount: "5000" });
    assert.equal(item.relayUrl, own.free ? `https://${item.id}.relay.example` : undefined);
    assert.equal(item.url, `https://gw.example/v1/${item.id}`);
  }
  const local = servicesDocument(catalogue, {
    ...CONTEXT,
    publicUrl: "http://127.0.0.1:3069",
    relayDomain: "localhost",
  });
  assert.equal(local.find(({ id }) => id === "eth")?.relayUrl, "http://eth.localhost:3069");
});

test("a service's pointer leads to its route in the OpenAPI document", () => {
  const document: unknown = openApi();
  for (const { openApiPath = "", operationId } of servicesDocument(catalogue, CONTEXT)) {
    const found = openApiPath
      .split("/")
      .slice(1)
      .map((part) => part.replaceAll("~1", "/"))
      .reduce<unknown>((value, part) => (value as Record<string, unknown>)[part], document);
    assert.equal((found as Route).operationId, operationId);
  }
});

test("the x402 listings name every paid route", () => {
  const urls = all.map(({ id }) => `https://gw.example/v1/${id}`);
  const known = wellKnownX402(catalogue, CONTEXT);
  assert.equal(known.version, 1);
  assert.deepEqual(known.resources, urls);
  const resources = discoveryResources(catalogue, CONTEXT);
  assert.deepEqual(
    resources.items.map(({ resource }) => resource),
    urls,
  );
  assert.deepEqual(resources.pagination, { limit: 1_000, offset: 0, total: all.length });
  const { type, x402Version, accepts, lastUpdated } = resources.items[0] ?? {};
  assert.deepEqual([type, x402Version, accepts, lastUpdated], ["http", 2, CONTEXT.options, CONTEXT.updatedAt]);
});

test("discovery is paged, and a page out of range is brought into it", () => {
  const page = (limit: number, offset: number): readonly unknown[] => {
    const { items, pagination } = discoveryResources(catalogue, CONTEXT, { limit, offset });
    return [items.length, pagination.limit, pagination.offset, pagination.total];
  };
  assert.deepEqual(page(10, 5), [10, 10, 5, all.length]);
  assert.deepEqual(page(10, all.length - 3), [3, 10, all.length - 3, all.length]);
  assert.deepEqual(page(10, 5_000), [0, 10, 5_000, all.length]);
  assert.deepEqual(page(0, -1), [1, 1, 0, all.length]);
  assert.deepEqual(page(Number.NaN, Number.POSITIVE_INFINITY), [all.length, 1_000, 0, all.length]);
});

test("llms.txt follows llmstxt.org: title, summary, sections of links", () => {
  const text = llmsText(catalogue, CONTEXT);
  assert.match(text, /^# Turnpike\n\n> /);
  for (const category of CATEGORIES) assert.ok(text.includes(`\n## ${category}\n`), category);
  for (const { id } of all) assert.ok(text.includes(`(https://gw.example/v1/${id}):`), id);
  const now = text.split("\n").filter((line) => line.startsWith("- ") && line.endsWith(" Serves now."));
  assert.equal(now.length, 1);
  assert.match(now[0] ?? "", /\/v1\/eth\)/, "the one that serves");
  const sections = text.slice(text.indexOf("\n## ")).split("\n");
  for (const line of sections) assert.match(line, /^$|^## [a-zA-Z]+$|^- \[[^\]]+\]\(https:\/\/[^)]+\): /);
});

test("every service has an image of its own kind", () => {
  for (const item of all) {
    const svg = iconSvg(item);
    assert.match(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"[^>]*>.*<\/svg>$/);
    assert.equal(svg, iconSvg(item));
  }
  assert.notEqual(iconSvg(service("search")), iconSvg(service("eth")));
});

test("the documents are functions of the catalogue and the context alone", () => {
  const again = createCatalogue();
  assert.deepEqual(openApiDocument(again, CONTEXT), openApiDocument(catalogue, CONTEXT));
  assert.equal(llmsText(again, CONTEXT), llmsText(catalogue, CONTEXT));
  const elsewhere = JSON.stringify(discoveryResources(catalogue, { ...CONTEXT, publicUrl: "https://other.example" }));
  assert.ok(!elsewhere.includes("gw.example"));
});

test("where nothing is sold no document tells how to buy, and an example is a call of the free relay", async () => {
  const free = createCatalogue({ sells: false });
  const openApi = openApiDocument(free, CONTEXT);
  assert.deepEqual(openApi.paths, {});
  assert.equal((await new Validator().validate(openApi)).valid, true);
  assert.deepEqual(wellKnownX402(free, CONTEXT).resources, []);
  assert.deepEqual(discoveryResources(free, CONTEXT, {}).items, []);

  const text = llmsText(free, CONTEXT);
  assert.match(text, /POST https:\/\/gw\.example\/relay\/\{service_id\}/);
  assert.match(text, /- \[Ethereum\]\(https:\/\/eth\.relay\.example\): .* Serves now\.$/m);
  assert.doesNotMatch(`${text}${JSON.stringify(openApi.info)}`, /\bbuy\b|\/v1\/|PAYMENT-/);
  const eth = servicesDocument(free, CONTEXT).find(({ id }) => id === "eth");
  assert.deepEqual([eth?.url, eth?.rails], [undefined, []]);
  assert.deepEqual([eth?.example.jsonrpc, eth?.example.id], ["2.0", 1]);
});
