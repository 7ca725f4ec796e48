import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { createCatalogue } from "../catalogue.ts";
import type { Service } from "../types.ts";
import type { DocumentContext } from "./context.ts";
import { createDiscovery } from "./discovery.ts";

const OPTION = {
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};
const BASE = { ...OPTION, network: "eip155:8453", payTo: "0x1111111111111111111111111111111111111111" };
const CONTEXT: DocumentContext = {
  publicUrl: "https://gw.example",
  options: ({ id }: Service) => (id === "eth" ? [OPTION, BASE] : [OPTION]),
  version: "0.1.0",
  serves: () => false,
  relayDomain: "relay.example",
};
const catalogue = createCatalogue({ overrides: { avax: { paid: false } } });
const discovery = createDiscovery(catalogue, CONTEXT);
const sold = [...catalogue.services.values()].filter(({ paid }) => paid).map(({ id }) => id as string);
const ids = (items: readonly { readonly metadata: Readonly<Record<string, unknown>> }[]): readonly string[] =>
  items.map(({ metadata }) => String(metadata.serviceId));

test("filters are joined, and those of a payment option hold for one and the same option", () => {
  const found = (filter: Parameters<typeof discovery.list>[0]): readonly string[] => ids(discovery.list(filter).items);
  assert.deepEqual(found({ network: "eip155:8453" }), ["eth"]);
  assert.deepEqual(found({ network: "eip155:8453", payTo: BASE.payTo }), ["eth"]);
  assert.deepEqual(found({ network: "eip155:8453", payTo: OPTION.payTo }), []);
  assert.deepEqual(found({ payTo: OPTION.payTo.toLowerCase(), scheme: "exact", type: "http" }), sold);
  assert.deepEqual(found({ extensions: "bazaar" }), sold);
  for (const extensions of ["", "constructor", "__proto__", "BAZAAR"]) assert.deepEqual(found({ extensions }), []);
});

test("what is found carries what the list carries, and what is not sold is not found", () => {
  const { resources } = discovery.search({ query: "Avalanche", limit: 100 });
  assert.ok(!ids(resources).includes("avax"));
  const listed = new Map(discovery.list().items.map((item) => [item.resource, item]));
  for (const item of discovery.search({ query: "mainnet", limit: 100 }).resources) {
    assert.deepEqual(item, listed.get(item.resource));
  }
});

test("a service's own name comes first; of equals the one that answers now", () => {
  for (const { id, name, paid } of catalogue.services.values()) {
    if (!paid) continue;
    const [first] = ids(discovery.search({ query: id, limit: 3 }).resources);
    const [named] = ids(discovery.search({ query: name, limit: 1 }).resources);
    assert.ok(first !== undefined && named !== undefined, id);
    assert.ok(
      [first, named].some((found) => found === id),
      `${id}: ${first}, ${named}`,
    );
  }
  const plain = ids(discovery.search({ query: "cosmos", limit: 40 }).resources);
  const last = plain.at(-1) as ServiceId;
  const served = ids(discovery.search({ query: "cosmos", limit: 40 }, (id) => id === last).resources);
  assert.ok(served.indexOf(last) < plain.indexOf(last));
});

test("words are found without case, accents, plurals and order", () => {
  const first = (query: string): string | undefined => ids(discovery.search({ query, limit: 1 }).resources)[0];
  for (const query of ["exchange rates", "RATE EXCHANGE", "éxchange-rate", "exch rat"]) {
    assert.equal(first(query), "exchange-rates", query);
  }
  for (const query of ["", "the of", "?!", "\u0000", "x402", "\ud800"]) assert.equal(first(query), undefined, query);
});

test("a rare word counts for more than common ones", () => {
  for (const [query, id] of [
    ["block hash chain of bitcoin", "bitcoin"],
    ["evm testnet block solana", "solana"],
  ] as const) {
    assert.equal(ids(discovery.search({ query, limit: 1 }).resources)[0], id, query);
  }
});

test("any query, limit and cursor gives a page within bounds, and pages do not overlap", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string({ unit: anyCodePoint, maxLength: 600 }), fc.constantFrom("cosmos", "block", "evm testnet")),
      fc.option(fc.oneof(fc.integer(), fc.double()), { nil: undefined }),
      fc.option(fc.oneof(fc.string(), fc.nat().map(String)), { nil: undefined }),
      (query, limit, cursor) => {
        const page = discovery.search({ query, limit, cursor });
        assert.ok(page.resources.length <= 100);
        assert.equal(page.pagination.limit, page.resources.length);
        assert.equal(page.partialResults, page.pagination.cursor !== null);
        if (page.pagination.cursor === null) return;
        const next = discovery.search({ query, limit, cursor: page.pagination.cursor });
        const seen = new Set(ids(page.resources));
        assert.ok(next.resources.length > 0 && ids(next.resources).every((id) => !seen.has(id)));
      },
    ),
    { numRuns: 200 },
  );
});
