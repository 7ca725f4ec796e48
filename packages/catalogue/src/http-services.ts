import { COUNT, closedObject, list, OBJECT, object, oneOf, orNull, STRING, text } from "./schema.ts";
import { MAX_SEARCH_BODY_BYTES } from "./search-request.ts";
import type { Category, JsonSchema, ServiceDefinition } from "./types.ts";

/** The services that are no networks: plain HTTP-JSON, one operation each. An operator gives them a supplier. */

const DATE = text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
const LINE: JsonSchema = { type: "string", minLength: 1, maxLength: 512 };
const LIMIT: JsonSchema = { type: "integer", minimum: 1, maximum: 100 };
const SCORE: JsonSchema = { type: "number", minimum: 0, maximum: 1 };
const upTo = (maxItems: number, items: JsonSchema): JsonSchema => ({ type: "array", minItems: 1, maxItems, items });
const DIGEST = text("^[0-9a-f]{64}([0-9a-f]{64})?$");

function http(
  id: string,
  name: string,
  category: Category,
  description: string,
  body: JsonSchema,
  answer: JsonSchema,
  example: Readonly<Record<string, unknown>>,
): ServiceDefinition {
  return {
    id,
    name,
    description,
    category,
    families: ["http"],
    operations: [{ name: "POST /", rpcType: "rest", description, params: body, result: answer, example }],
  };
}

const SEARCH_BODY = object({
  query: { type: "string", minLength: 1, description: "Natural language or keywords." },
  "max_results?": { type: "integer", minimum: 1, description: "The most results to return; large values are capped." },
});

const described = (schema: JsonSchema, description: string): JsonSchema => ({
  ...(schema as Readonly<Record<string, unknown>>),
  description,
});
const textOrNull = (description: string): JsonSchema => ({ type: ["string", "null"], description });

/** What back-ends call a result differs; of one that has these members they are at least of these types. */
const SEARCH_RESULT = object({
  "title?": textOrNull("Title of the page."),
  "url?": textOrNull("Address of the page."),
  "snippet?": textOrNull("The passage that fits the query, plain text of a third party."),
  "score?": { type: ["number", "null"], description: "0 to 1, the best first; comparable within one answer only." },
  "source?": textOrNull("Engines that found it, the best rank first, with commas."),
  "date?": textOrNull("When the page was published or changed, ISO 8601; null when unknown."),
});
const SEARCH_ANSWER: JsonSchema = {
  ...(object({
    query: described(STRING, "As received."),
    results: described(list(SEARCH_RESULT), "Best first. Empty when nothing was found."),
    "partial?": { type: "boolean", description: "True when an engine failed or was late, so that there may be more." },
  }) as Readonly<Record<string, unknown>>),
  examples: [
    {
      query: "how does EIP-3009 work",
      results: [
        {
          title: "ERC-3009: Transfer With Authorization",
          url: "https://eips.ethereum.org/EIPS/eip-3009",
          snippet:
            "Transfer of fungible assets by signed authorizations: transferWithAuthorization moves tokens of its signer.",
          score: 1,
          source: "local",
          date: "2020-09-28",
        },
      ],
      partial: false,
      engines: [{ id: "local", status: "ok", results: 1, took_ms: 4 }],
      took_ms: 5,
    },
  ],
};

/** Web search (spec §2.5, §4.1.1). */
const SEARCH: ServiceDefinition = {
  id: "search",
  name: "Web search",
  description:
    "Searches the web in natural language or keywords and returns ranked results with titles, URLs and excerpts.",
  category: "web",
  families: ["search"],
  maxBodyBytes: MAX_SEARCH_BODY_BYTES,
  operations: [
    {
      name: "POST /",
      rpcType: "rest",
      description: "Searches the web.",
      params: SEARCH_BODY,
      result: SEARCH_ANSWER,
      example: { query: "how does EIP-3009 work", max_results: 5 },
    },
    {
      name: "POST /v1/search",
      rpcType: "rest",
      description: "Searches the web.",
      params: SEARCH_BODY,
      result: SEARCH_ANSWER,
    },
    { name: "GET /v1/version", rpcType: "rest", description: "Version of the search service.", result: OBJECT },
    { name: "GET /v1/health", rpcType: "rest", description: "Health of the search service.", result: OBJECT },
    { name: "GET /v1/capabilities", rpcType: "rest", description: "What the search service can do.", result: OBJECT },
    { name: "GET /healthz", rpcType: "rest", description: "Health of the search service.", result: OBJECT },
  ],
};

/** Every built-in service that is no network. */
export const HTTP_SERVICES: readonly ServiceDefinition[] = [
  SEARCH,
  http(
    "document-digest",
    "Document digest",
    "documents",
    "Counts a text's bytes, characters, words and lines and hashes its UTF-8 bytes.",
    closedObject({
      text: { type: "string", minLength: 1, maxLength: 65_536 },
      "algorithms?": {
        ...(upTo(4, oneOf("sha256", "sha512", "sha3-256", "blake2b512")) as Readonly<Record<string, unknown>>),
        uniqueItems: true,
      },
    }),
    closedObject({
      bytes: COUNT,
      characters: COUNT,
      words: COUNT,
      lines: COUNT,
      digests: closedObject({ "sha256?": DIGEST, "sha512?": DIGEST, "sha3-256?": DIGEST, "blake2b512?": DIGEST }),
    }),
    { text: "The quick brown fox", algorithms: ["sha256"] },
  ),
  http(
    "drug-labels",
    "Drug labels",
    "health",
    "Finds labels of medicines by name or active substance, with indications, warnings and interactions.",
    closedObject({ query: LINE, "language?": text("^[a-z]{2}$"), "limit?": LIMIT }),
    object({
      query: STRING,
      labels: list(
        object({
          id: STRING,
          name: STRING,
          substances: list(STRING),
          "indications?": orNull(STRING),
          "warnings?": list(STRING),
          "interactions?": list(STRING),
          "updated?": orNull(DATE),
        }),
      ),
    }),
    { query: "ibuprofen", limit: 3 },
  ),
  http(
    "sanctions-screening",
    "Sanctions screening",
    "compliance",
    "Compares a person, company or blockchain address with public sanctions lists and returns matches with scores.",
    closedObject({
      name: LINE,
      "kind?": oneOf("person", "organisation", "vessel", "address"),
      "country?": text("^[A-Z]{2}$"),
      "birth_date?": DATE,
      "threshold?": SCORE,
    }),
    object({
      matches: list(
        object({
          id: STRING,
          name: STRING,
          score: SCORE,
          list: STRING,
          "aliases?": list(STRING),
          "programs?": list(STRING),
        }),
      ),
      lists: list(object({ name: STRING, updated: DATE })),
    }),
    { name: "Acme Trading", kind: "organisation", country: "DE" },
  ),
  http(
    "company-registry",
    "Company registry",
    "government",
    "Looks up companies in public registers by name or number, with status, address and officers.",
    closedObject({ country: text("^[A-Z]{2}$"), query: LINE, "limit?": LIMIT }),
    object({
      companies: list(
        object({
          number: STRING,
          name: STRING,
          country: text("^[A-Z]{2}$"),
          status: oneOf("active", "dissolved", "insolvent", "unknown"),
          "founded?": orNull(DATE),
          "address?": orNull(STRING),
          "officers?": list(object({ name: STRING, role: STRING })),
        }),
      ),
    }),
    { country: "GB", query: "Example Ltd", limit: 5 },
  ),
  http(
    "exchange-rates",
    "Exchange rates",
    "finance",
    "Reference exchange rates of one currency against others, of today or of a past day.",
    closedObject({ base: text("^[A-Z]{3}$"), "symbols?": upTo(50, text("^[A-Z]{3}$")), "date?": DATE }),
    object({
      base: text("^[A-Z]{3}$"),
      date: DATE,
      rates: { type: "object", propertyNames: text("^[A-Z]{3}$"), additionalProperties: text("^[0-9]+(\\.[0-9]+)?$") },
    }),
    { base: "USD", symbols: ["EUR", "JPY"] },
  ),
  http(
    "paper-metadata",
    "Paper metadata",
    "research",
    "Finds scholarly papers by DOI or words and returns title, authors, venue, abstract and citation count.",
    closedObject({ query: LINE, "from_year?": { type: "integer", minimum: 1500, maximum: 2999 }, "limit?": LIMIT }),
    object({
      papers: list(
        object({
          title: STRING,
          authors: list(object({ name: STRING, "orcid?": orNull(STRING) })),
          year: orNull({ type: "integer" }),
          "doi?": orNull(text("^10\\.[0-9]{4,9}/.+$")),
          "venue?": orNull(STRING),
          "abstract?": orNull(STRING),
          "citations?": COUNT,
        }),
      ),
    }),
    { query: "byzantine fault tolerance", limit: 5 },
  ),
  http(
    "cve-lookup",
    "CVE lookup",
    "security",
    "Returns published vulnerabilities by CVE id or by package and version, with severity and fixed versions.",
    {
      ...(closedObject({
        "cve?": text("^CVE-[0-9]{4}-[0-9]{4,}$"),
        "ecosystem?": oneOf("npm", "pypi", "go", "crates.io", "maven", "nuget", "rubygems", "debian", "alpine"),
        "package?": LINE,
        "version?": LINE,
      }) as Readonly<Record<string, unknown>>),
      anyOf: [{ required: ["cve"] }, { required: ["ecosystem", "package"] }],
    },
    object({
      vulnerabilities: list(
        object({
          id: STRING,
          summary: STRING,
          "severity?": orNull(oneOf("none", "low", "medium", "high", "critical")),
          "cvss?": orNull({ type: "number", minimum: 0, maximum: 10 }),
          "fixed_versions?": list(STRING),
          "references?": list(STRING),
        }),
      ),
    }),
    { ecosystem: "npm", package: "lodash", version: "4.17.20" },
  ),
  http(
    "text-embedding",
    "Text embedding",
    "ai",
    "Converts up to 64 texts to vectors for search and clustering.",
    closedObject({
      input: upTo(64, { type: "string", minLength: 1, maxLength: 8192 }),
      "dimensions?": { type: "integer", minimum: 16, maximum: 4096 },
    }),
    object({
      model: STRING,
      dimensions: { type: "integer", minimum: 1 },
      embeddings: list({ type: "array", minItems: 1, items: { type: "number" } }),
    }),
    { input: ["a cat sat on the mat"] },
  ),
];
