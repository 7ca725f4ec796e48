import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { silentLog } from "@turnpike/base";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { parsePaid } from "@turnpike/relay";
import { HTTPFacilitatorClient } from "@x402/core/http";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import {
  type DiscoveredHTTPResource,
  type DiscoveryExtension,
  type DiscoveryResource,
  extractDiscoveryInfo,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
  withBazaar,
} from "@x402/extensions/bazaar";
import { Ajv2020 } from "ajv/dist/2020.js";
import { type FacilitatorService, startFacilitator } from "../../apps/turnpike/src/wiring/facilitator.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
import { type Ground, startGround } from "../support/network.ts";
import { call, signPayment, termsOf } from "../support/payer.ts";
import { ethAt, exact, type OpenGateway, openGateway, PRICE, type StandIn, startStandIn } from "./support.ts";

const MAX_HEADER_BYTES = 4_096;
const MAX_DESCRIPTION_LENGTH = 500;

type Json = Readonly<Record<string, unknown>>;

interface Terms {
  readonly x402Version: number;
  readonly resource: { readonly url: string; readonly description: string; readonly iconUrl: string };
  readonly accepts: readonly PaymentRequirements[];
  readonly extensions: {
    readonly bazaar: DiscoveryExtension & {
      readonly info: {
        readonly input: { readonly method: string; readonly bodyType: string; readonly body: Json };
        readonly output: { readonly type: string; readonly example: { readonly data: Json } };
      };
    };
  };
}

interface Media {
  readonly schema: Json;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}
interface Holder {
  readonly content?: Readonly<Record<string, Media>>;
  readonly $ref?: string;
}
interface Post {
  readonly security: readonly unknown[];
  readonly requestBody: Holder;
  readonly responses: Readonly<Record<string, Holder>>;
}
interface OpenApi extends Json {
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, { readonly post: Post }>>;
  readonly components: { readonly responses: Readonly<Record<string, Holder>> };
}

/** OpenAPI 3.0's `nullable` in the words of JSON Schema, with references from the document's root. */
function toJsonSchema(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toJsonSchema);
  if (typeof value !== "object" || value === null) return value;
  const { nullable, exclusiveMinimum, ...rest } = value as Record<string, unknown>;
  const own = Object.fromEntries(Object.entries(rest).map(([key, inner]) => [key, toJsonSchema(inner)]));
  if (typeof exclusiveMinimum === "boolean") own.exclusiveMinimum = own.minimum;
  else if (exclusiveMinimum !== undefined) own.exclusiveMinimum = toJsonSchema(exclusiveMinimum);
  return nullable === true ? { anyOf: [{ type: "null" }, own] } : own;
}

/** What llmstxt.org asks for: a title, a summary, text without headings, then sections that are lists of links. */
function readLlms(text: string): ReadonlyMap<string, readonly string[]> {
  const [title = "", blank, summary = ""] = text.split("\n");
  assert.match(title, /^# \S/);
  assert.equal(blank, "");
  assert.match(summary, /^> \S/);
  const [intro = "", ...sections] = text.split(/^## /m);
  assert.ok(!/^#/m.test(intro.slice(title.length)), "no heading before the first section");
  const found = new Map<string, readonly string[]>();
  for (const section of sections) {
    const [name = "", ...lines] = section.split("\n");
    assert.ok(name !== "" && !found.has(name), name);
    const urls = lines
      .filter((line) => line !== "")
      .map((line) => {
        const [, , url = ""] = /^- \[([^[\]]+)\]\((\S+)\)(: \S.*)?$/.exec(line) ?? [];
        assert.ok(URL.canParse(url), `${name}: ${line}`);
        return url;
      });
    assert.ok(urls.length > 0, name);
    found.set(name, urls);
  }
  return found;
}

/** Queries that both listings must refuse, without a fault of theirs. */
const BAD_LISTS = [
  "limit=0",
  "limit=-1",
  "limit=1.5",
  "limit=x",
  "limit=",
  "limit=1e3",
  "limit=9999999999",
  "offset=-1",
  "offset=x",
  "limit=1&limit=2",
  "network=a&network=b",
  `payTo=${"x".repeat(513)}`,
];
const BAD_SEARCHES = [
  "",
  "query=",
  "query=+%20",
  "limit=5",
  "query=eth&limit=0",
  "query=eth&limit=x",
  "query=a&query=b",
  `query=${"q".repeat(513)}`,
];
/** Queries that both must answer, whatever they find. */
const ODD_SEARCHES = [
  "%00",
  "'; DROP TABLE x; --",
  '" OR NOT * NEAR(',
  "\u202e\u200b",
  "a".repeat(512),
  "((((",
  "\ud800",
];

suite("discovery as indexers and reference clients read it", () => {
  const services: readonly Service[] = [...createCatalogue({}).services.values()];
  let ground: Ground;
  let node: StandIn;
  let gateway: OpenGateway;
  let facilitator: FacilitatorService;
  /** The gateway, and the facilitator that lists what the gateway sells. */
  const origins = (): readonly string[] => [gateway.url, facilitator.url];

  before(async () => {
    [ground, node] = await Promise.all([startGround(), startStandIn()]);
    gateway = await openGateway(ground, { sections: { suppliers: ethAt(node.url) } });
    const config = {
      ...gateway.config,
      facilitator: { ...gateway.config.facilitator, port: 0, discoveryUrl: gateway.url },
    };
    facilitator = await startFacilitator({ config, env: {}, log: silentLog, waits: PATIENT });
  });
  after(async () => {
    await facilitator?.[Symbol.asyncDispose]();
    await gateway?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  const get = async <T>(path: string): Promise<T> => {
    const answer = await fetch(`${gateway.url}${path}`);
    assert.equal(answer.status, 200, path);
    return (await answer.json()) as T;
  };

  const bazaar = (url: string) => withBazaar(new HTTPFacilitatorClient({ url })).extensions.bazaar;

  test("each 402 says how its route is called: by the reference validators, and by the route itself", async () => {
    const ajv = new Ajv2020({ strict: false });
    for (const service of services) {
      const { id } = service;
      const answer = await fetch(gateway.route(id), { method: "POST" });
      assert.equal(answer.status, 402, id);
      const header = answer.headers.get("payment-required") ?? "";
      assert.ok(header.length > 0 && header.length < MAX_HEADER_BYTES, `${id}: ${header.length}`);
      const { x402Version, resource, accepts, extensions } = (await answer.json()) as Terms;
      const { bazaar: extension } = extensions;
      assert.deepEqual(validateDiscoveryExtension(extension), { valid: true }, id);
      assert.deepEqual(validateDiscoveryExtensionSpec({ ...extension }), { valid: true }, id);
      const [accepted] = accepts;
      assert.ok(accepted);
      const payload = { x402Version, resource, accepted, payload: {}, extensions } as unknown as PaymentPayload;
      const found = extractDiscoveryInfo(payload, accepted) as DiscoveredHTTPResource | null;
      assert.deepEqual([found?.resourceUrl, found?.method], [gateway.route(id), "POST"], id);

      const { input, output } = extension.info;
      assert.deepEqual([input.method, input.bodyType, output.type], ["POST", "json", "json"], id);
      const body = Buffer.from(JSON.stringify(input.body));
      const parsed = parsePaid(service, { verb: "POST", appendedPath: "", query: "", body });
      assert.ok(parsed.ok, `${id} does not take ${body.toString()}`);
      const { rpcType, result } = service.operations.get(parsed.call.operation) ?? {};
      const { data } = output.example;
      assert.ok(Object.keys(data).length > 0, id);
      const judged = rpcType === "rest" ? data : data.result;
      if (result !== undefined) assert.ok(ajv.validate(result, judged), `${id}: ${ajv.errorsText()}`);

      assert.ok(resource.description.length > 0 && resource.description.length <= MAX_DESCRIPTION_LENGTH, id);
    }
  });

  test("what the terms of a route show can be bought, and the answer is as they show it", async () => {
    const url = gateway.route("eth");
    const terms = (await (await fetch(url, { method: "POST" })).json()) as Terms;
    const { input, output } = terms.extensions.bazaar.info;
    const payer = await ground.fundedPayer(PRICE);
    const bought = await call(url, input.body, await signPayment(payer, await termsOf(url)));
    assert.equal(bought.status, 200, bought.text);
    assert.deepEqual(Object.keys(bought.json), Object.keys(output.example));
    assert.deepEqual(bought.json.portal, (output.example as unknown as Json).portal);
    assert.deepEqual(Object.keys(bought.json.data).sort(), Object.keys(output.example.data).sort());
    assert.equal(typeof bought.json.data.result, typeof output.example.data.result);
  });

  test("search's terms tell a model what it sends and gets", async () => {
    const terms = (await (await fetch(gateway.route("search"), { method: "POST" })).json()) as Terms;
    const { info, schema } = terms.extensions.bazaar;
    assert.match(terms.resource.description, /search/i);
    assert.ok(typeof info.input.body.query === "string" && info.input.body.query.length > 8);
    const { data } = info.output.example;
    assert.equal(data.query, info.input.body.query);
    assert.deepEqual(Object.keys(data), ["query", "results", "partial", "engines", "took_ms"]);
    const [first] = data.results as readonly Json[];
    assert.deepEqual(Object.keys(first ?? {}), ["title", "url", "snippet", "score", "source", "date"]);
    const shown = JSON.stringify(schema);
    for (const field of ["query", "max_results"]) assert.ok(shown.includes(`"${field}"`), field);
  });

  test("the reference client lists from the gateway and from the facilitator, and both say the same", async () => {
    const lists = await Promise.all(origins().map((url) => bazaar(url).listResources({ limit: 1_000 })));
    const [ours, theirs] = lists;
    const shown = new Map<string, DiscoveryExtension>();
    for (const { id } of services) {
      const terms = (await (await fetch(gateway.route(id), { method: "POST" })).json()) as Terms;
      shown.set(terms.resource.url, terms.extensions.bazaar);
    }
    const plain = (items: readonly DiscoveryResource[]): unknown =>
      items.map(({ lastUpdated: _started, ...item }) => item);
    assert.ok(ours && theirs);
    assert.deepEqual(plain(theirs.items), plain(ours.items));
    for (const { resource, extensions } of ours.items) {
      const extension = extensions?.bazaar as DiscoveryExtension;
      assert.deepEqual(validateDiscoveryExtension(extension), { valid: true }, resource);
      assert.deepEqual(validateDiscoveryExtensionSpec({ ...extension }), { valid: true }, resource);
      if (resource !== gateway.route("search")) continue;
      const answer = JSON.stringify(extension.schema);
      for (const field of ["snippet", "date"]) assert.ok(answer.includes(`"${field}"`), field);
    }
    for (const { x402Version, items, pagination } of lists) {
      assert.equal(x402Version, 2);
      assert.deepEqual(
        items.map(({ resource }) => resource),
        services.map(({ id }) => gateway.route(id)),
      );
      assert.deepEqual(pagination, { limit: 1_000, offset: 0, total: services.length });
      for (const item of items) {
        assert.deepEqual([item.type, item.x402Version, item.mimeType], ["http", 2, "application/json"]);
        assert.ok(item.accepts.length > 0 && !Number.isNaN(Date.parse(item.lastUpdated)), item.resource);
        const { info } = (item.extensions?.bazaar ?? {}) as Partial<DiscoveryExtension>;
        assert.deepEqual(info, shown.get(item.resource)?.info, item.resource);
      }
    }
  });

  test("page after page gives every resource once", async () => {
    for (const url of origins()) {
      const seen: string[] = [];
      for (let offset = 0; ; offset += 25) {
        const { items, pagination } = await bazaar(url).listResources({ limit: 25, offset });
        assert.deepEqual(pagination, { limit: 25, offset, total: services.length });
        seen.push(...items.map(({ resource }) => resource));
        if (items.length === 0) break;
      }
      assert.deepEqual(
        seen,
        services.map(({ id }) => gateway.route(id)),
      );
      const beyond = await bazaar(url).listResources({ limit: 900_000_000, offset: 999_999_999 });
      assert.deepEqual([beyond.items, beyond.pagination.limit], [[], 1_000]);
    }
  });

  test("the reference client filters by type, receiver, scheme, network and extension", async () => {
    for (const url of origins()) {
      const count = async (filter: Parameters<ReturnType<typeof bazaar>["listResources"]>[0]): Promise<number> =>
        (await bazaar(url).listResources(filter)).pagination.total;
      const all = services.length;
      assert.equal(await count({ type: "http" }), all);
      assert.equal(await count({ type: "mcp" }), 0);
      assert.equal(await count({ payTo: gateway.payTo.toUpperCase().replace("0X", "0x") }), all);
      assert.equal(await count({ payTo: `0x${"0".repeat(40)}` }), 0);
      assert.equal(await count({ scheme: "exact", network: "eip155:84532", extensions: "bazaar" }), all);
      assert.equal(await count({ network: "eip155:1" }), 0);
      assert.equal(await count({ scheme: "upto" }), 0);
      assert.equal(await count({ extensions: "toString" }), 0);
    }
  });

  test("the reference client finds routes by words, page by page", async () => {
    const wanted: readonly (readonly [query: string, id: string])[] = [
      ["web search", "search"],
      ["search the web for pages", "search"],
      ["Ethereum mainnet", "eth"],
      ["currency exchange rates", "exchange-rates"],
      ["CVE vulnerabilities of an npm package", "cve-lookup"],
      ["hash a document", "document-digest"],
      ["scholarly papers by DOI", "paper-metadata"],
      ["solana getSlot", "solana"],
    ];
    for (const url of origins()) {
      for (const [query, id] of wanted) {
        const { x402Version, resources } = await bazaar(url).search({ query });
        assert.deepEqual([x402Version, resources[0]?.resource], [2, gateway.route(id)], query);
        assert.ok(resources.length <= 20, query);
      }
      const seen = new Set<string>();
      let cursor: string | null | undefined;
      do {
        const page = await bazaar(url).search({ query: "blockchain", limit: 30, ...(cursor ? { cursor } : {}) });
        for (const { resource } of page.resources) {
          assert.ok(!seen.has(resource), resource);
          seen.add(resource);
        }
        cursor = page.pagination?.cursor;
        assert.equal(page.partialResults, cursor !== null);
      } while (cursor);
      const chains = services.filter(({ category }) => category === "blockchain");
      for (const { id } of chains) assert.ok(seen.has(gateway.route(id)), id);
      assert.deepEqual((await bazaar(url).search({ query: "zzzz qqqq" })).resources, []);
      assert.deepEqual((await bazaar(url).search({ query: "web search", network: "eip155:1" })).resources, []);
    }
  });

  test("bad queries are 400 in our form, odd ones are answered, at the gateway and the facilitator alike", async () => {
    for (const url of origins()) {
      const paths = [
        ...BAD_LISTS.map((query) => `/discovery/resources?${query}`),
        ...BAD_SEARCHES.map((query) => `/discovery/search?${query}`),
      ];
      for (const path of paths) {
        const answer = await fetch(url + path);
        assert.equal(answer.status, 400, path);
        const body = (await answer.json()) as Json;
        assert.equal(body.code, "MALFORMED_REQUEST", path);
        assert.equal(answer.headers.get("access-control-allow-origin"), "*");
      }
      for (const query of ODD_SEARCHES) {
        const answer = await fetch(`${url}/discovery/search?${new URLSearchParams({ query }).toString()}`);
        assert.equal(answer.status, 200, query);
      }
      assert.equal((await fetch(`${url}/discovery/resources?utm_source=x&type=http`)).status, 200);
    }
  });

  test("every listing is for pages of any origin, has a validator, and answers HEAD", async () => {
    const documents: readonly (readonly [path: string, type: RegExp])[] = [
      ["/", /^application\/json/],
      ["/openapi.json", /^application\/json/],
      ["/.well-known/openapi.json", /^application\/json/],
      ["/.well-known/x402", /^application\/json/],
      ["/.well-known/api-catalog", /^application\/linkset\+json/],
      ["/services.json", /^application\/json/],
      ["/llms.txt", /^text\/plain; charset=utf-8/],
      ["/llms-full.txt", /^text\/plain; charset=utf-8/],
      ["/robots.txt", /^text\/plain/],
      ["/favicon.ico", /^image\/svg\+xml/],
      ["/icons/search.svg", /^image\/svg\+xml/],
    ];
    const lists: readonly (readonly [path: string, type: RegExp])[] = [
      ["/discovery/resources", /^application\/json/],
      ["/discovery/resources?limit=3&offset=2", /^application\/json/],
      ["/discovery/search?query=web+search", /^application\/json/],
    ];
    const origin = { origin: "https://indexer.example" };
    for (const url of origins()) {
      for (const [path, type] of url === gateway.url ? [...documents, ...lists] : lists) {
        const first = await fetch(url + path, { headers: origin });
        const text = await first.text();
        assert.equal(first.status, 200, path);
        assert.match(first.headers.get("content-type") ?? "", type, path);
        assert.equal(first.headers.get("access-control-allow-origin"), "*", path);
        const etag = first.headers.get("etag") ?? "";
        assert.match(etag, /^"[\w-]+"$/, path);
        const again = await fetch(url + path, { headers: { "if-none-match": `"other", W/${etag}` } });
        assert.deepEqual([again.status, await again.text()], [304, ""], path);
        const other = await fetch(url + path, { headers: { "if-none-match": '"other"' } });
        assert.equal(await other.text(), text, path);
        const head = await exact(url, "HEAD", path);
        assert.deepEqual([head.status, head.text, head.headers.etag], [200, "", etag], path);
        assert.equal(head.headers["content-length"], String(Buffer.byteLength(text)), path);
        const preflight = await exact(url, "OPTIONS", path, {
          headers: {
            ...origin,
            "access-control-request-method": "GET",
            "access-control-request-headers": "content-type",
          },
        });
        assert.equal(preflight.status, 204, path);
        assert.match(String(preflight.headers["access-control-allow-methods"]), /GET/, path);
        assert.match(String(preflight.headers["access-control-allow-headers"]).toLowerCase(), /content-type/, path);
        assert.equal(preflight.headers["access-control-allow-origin"], "*", path);
      }
    }
  });

  test("OpenAPI is valid 3.0.3, and every example of it fits its own schema", async () => {
    const document = await get<OpenApi>("/openapi.json");
    const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)));
    assert.ok(valid, JSON.stringify(errors)?.slice(0, 500));
    assert.deepEqual(await get("/.well-known/openapi.json"), document);
    assert.deepEqual(document.servers, [{ url: gateway.url }]);
    const ajv = new Ajv2020({ strict: false, logger: false });
    ajv.addSchema(toJsonSchema(document) as Json, "doc");
    const check = (what: string, holder: Holder, pointer: string): number => {
      const media = holder.content?.["application/json"];
      const examples = Object.values(media?.examples ?? {});
      const place = `doc#${pointer}/content/application~1json/schema`;
      for (const { value } of examples) {
        const schema = ajv.getSchema(place);
        assert.ok(schema?.(value), `${what}: ${ajv.errorsText(schema?.errors)}`);
      }
      return examples.length;
    };
    for (const [path, { post }] of Object.entries(document.paths)) {
      const at = `/paths/${path.replaceAll("/", "~1")}/post`;
      assert.equal(check(path, post.requestBody, `${at}/requestBody`), 1, path);
      assert.equal(check(path, post.responses["200"] ?? {}, `${at}/responses/200`), 1, path);
      assert.equal(post.responses["402"]?.$ref, "#/components/responses/PaymentRequired", path);
      // A scheme would be read as an account or a key that the caller must have.
      assert.deepEqual(post.security, [], path);
    }
    const { responses } = document.components;
    for (const name of ["PaymentRequired", "ValidationError", "Unavailable"]) {
      assert.equal(check(name, responses[name] ?? {}, `/components/responses/${name}`), 1, name);
    }
  });

  test("the x402 document names exactly the addresses that answer 402, and the link set documents that exist", async () => {
    const known = await get<{ version: number; resources: string[]; instructions: string }>("/.well-known/x402");
    assert.equal(known.version, 1);
    assert.deepEqual(known.resources, [...new Set(known.resources)]);
    assert.equal(known.resources.length, services.length);
    for (const url of known.resources) assert.equal((await fetch(url, { method: "POST" })).status, 402, url);
    assert.ok(known.instructions.includes("PAYMENT-SIGNATURE"));
    const { linkset } = await get<{ linkset: Readonly<Record<string, unknown>>[] }>("/.well-known/api-catalog");
    const links = linkset.flatMap(({ anchor: _anchor, ...relations }) =>
      Object.values(relations as Readonly<Record<string, { href: string; type: string }[]>>).flat(),
    );
    assert.ok(links.length >= 5);
    for (const { href, type } of links) {
      const answer = await fetch(href);
      // What is ready may answer 503 while it is not.
      assert.ok(answer.status === 200 || href.endsWith("/ready"), href);
      assert.ok(answer.headers.get("content-type")?.startsWith(type), href);
    }
  });

  test("llms.txt is as llmstxt.org asks, and leads to documents and to every service", async () => {
    const text = await (await fetch(`${gateway.url}/llms.txt`)).text();
    const sections = readLlms(text);
    const [first] = [...sections.keys()];
    assert.equal(first, "Documents");
    for (const url of sections.get("Documents") ?? []) assert.equal((await fetch(url)).status, 200, url);
    const listed = [...sections].filter(([name]) => name !== "Documents").flatMap(([, urls]) => urls);
    assert.deepEqual(listed.toSorted(), services.map(({ id }) => gateway.route(id)).toSorted());
    assert.match(text, /\{"query"/, "an example of a search");
    const full = await (await fetch(`${gateway.url}/llms-full.txt`)).text();
    for (const { id, operations } of services) {
      assert.ok(full.includes(`POST ${gateway.route(id)}\``), id);
      for (const name of operations.keys()) {
        if (name !== "POST /" && !operations.has("POST /")) assert.ok(full.includes(`\`${name}\``), `${id} ${name}`);
      }
    }
    assert.ok(full.length < 400_000, `${full.length}`);
  });

  test("every icon is a well-formed image of its own that runs nothing", async () => {
    const listed = await get<{ id: string; iconUrl: string }[]>("/services.json");
    const drawn = new Map<string, string>();
    for (const { id, iconUrl } of listed) {
      const answer = await fetch(iconUrl);
      assert.equal(answer.headers.get("content-type"), "image/svg+xml", id);
      assert.equal(answer.headers.get("x-content-type-options"), "nosniff", id);
      const svg = await answer.text();
      assert.ok(Buffer.byteLength(svg) < 4_096, id);
      const open: string[] = [];
      const rest = svg.replaceAll(/<(\/?)([a-z]+)((?: [a-zA-Z-]+="[^"<>&]*")*)(\/?)>/g, (_all, end, name, _of, own) => {
        if (end === "/") assert.equal(open.pop(), name, id);
        else if (own !== "/") open.push(name);
        return "";
      });
      assert.deepEqual(open, [], id);
      assert.match(rest, /^[A-Z0-9]{1,2}$/, `${id}: nothing but elements and two letters`);
      assert.ok(!/<(script|foreignObject|image|use|a)\b| on[a-z]+=|href|url\(|javascript:|@import/i.test(svg), id);
      const picture = svg.replace(/ aria-label="[^"]*"/, "");
      assert.equal(drawn.get(picture), undefined, `${id} looks like ${drawn.get(picture)}`);
      drawn.set(picture, id);
    }
    assert.equal(drawn.size, services.length);
  });

  test("the index is JSON for programs and a page for browsers, whose links lead somewhere", async () => {
    const index = await get<{ links: Readonly<Record<string, string>> }>("/");
    for (const path of Object.values(index.links)) {
      const { status } = await fetch(gateway.url + path);
      assert.ok(status === 200 || path === "/ready", path);
    }
    const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    const page = await fetch(gateway.url, { headers: { accept: browser } });
    assert.match(page.headers.get("content-type") ?? "", /^text\/html; charset=utf-8/);
    assert.match(page.headers.get("vary") ?? "", /accept/i);
    assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'none'/);
    const html = await page.text();
    assert.ok(!/<script|\bon[a-z]+=|https?:\/\//i.test(html), "no script, nothing from elsewhere");
    const links = [...html.matchAll(/href="(\/[^"]*)"/g)].map(([, path = ""]) => path);
    assert.ok(links.length > 6);
    for (const path of links) {
      const { status } = await fetch(gateway.url + path);
      assert.ok(status === 200 || path === "/ready", path);
    }
    for (const accept of ["application/json", "*/*", "text/html;q=0.5, application/json", "text/html;q=x", ""]) {
      const answer = await fetch(gateway.url, { headers: { accept } });
      assert.match(answer.headers.get("content-type") ?? "", /^application\/json/, accept);
    }
  });
});
