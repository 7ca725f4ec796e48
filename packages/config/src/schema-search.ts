import { Type } from "typebox";
import {
  connectingProxies,
  connections,
  entry,
  flag,
  integer,
  list,
  oneOf,
  port,
  section,
  text,
  textOf,
  url,
} from "./keys.ts";

const milliseconds = (fallback: number, least: number, most: number, description: string) =>
  integer(fallback, least, most, `${description}, in milliseconds.`);

const ENGINE = entry(
  {
    kind: oneOf(
      ["local", "searxng", "brave", "tavily", "exa"],
      "`local` is the index of `search.local`; the others are asked over HTTP. No default.",
    ),
    id: Type.Optional(
      Type.String({
        pattern: "^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$",
        description: "Its name in answers and metrics. No default: else it is `kind`.",
        "x-expected": "lower-case letters, digits and -",
      }),
    ),
    url: Type.Optional(
      url("Base URL: required for `searxng`; for the hosted ones another address than their own. No default."),
    ),
    apiKey: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        "x-secret": true,
        description: "Key of a hosted engine. Take it from the environment, as the manual shows. No default.",
      }),
    ),
    timeoutMs: milliseconds(4_000, 50, 30_000, "Longest time for its answer; later it counts as late"),
    weight: Type.Number({
      minimum: 0.01,
      maximum: 100,
      default: 1,
      description: "How much its ranks count when results are merged.",
    }),
  },
  "One search engine.",
);

const SOURCE = entry(
  {
    kind: oneOf(
      ["folder", "packages", "url", "sitemap", "feed"],
      "`folder`: files below a folder, or one file. `packages`: the documentation of the npm packages below a `node_modules`. `url`: a site from this page on. `sitemap`, `feed`: what it lists. No default.",
    ),
    target: textOf("The path of the folder or file, or the URL. No default."),
    baseUrl: Type.Optional(
      url(
        "Address under which a folder's files are published. No default: else results name the copy that this service serves.",
      ),
    ),
  },
  "One source of the local index.",
);

/** The web search service. */
export const SEARCH = section(
  {
    host: text("127.0.0.1", "Address to listen on."),
    port: port(8080, "Port of POST /v1/search."),
    publicUrl: Type.Optional(
      url("Address at which others reach the service, for links to indexed files. No default: else host and port."),
    ),
    engines: Type.Array(ENGINE, {
      minItems: 1,
      maxItems: 16,
      default: [{ kind: "local", timeoutMs: 4_000, weight: 1 }],
      description: "Engines that are asked, all at once; their results are merged.",
    }),
    timeoutMs: milliseconds(5_000, 100, 60_000, "Longest time of one search: what has come until then is answered"),
    maxInFlight: integer(64, 1, 10_000, "Searches at once; more are answered 503."),
    maxConnectionsPerClient: connections(1_000, 250).maxConnectionsPerClient,
    trustedProxies: connectingProxies(),
    cacheSeconds: integer(60, 0, 86_400, "How long an answer may be given again, in seconds; 0 keeps none."),
    cacheBytes: integer(16_777_216, 0, 4_294_967_296, "Most bytes of kept answers."),
    local: section(
      {
        file: text(".turnpike/search.sqlite", "File of the local index."),
        threads: integer(2, 1, 64, "Threads that search the index."),
        sources: list(SOURCE, 1_000, "What `turnpike search index` indexes without arguments."),
      },
      "The index of the engine `local`.",
    ),
    crawl: section(
      {
        userAgent: text(
          "TurnpikeBot/1.0",
          "Name that the crawler gives. Add an address where its owner can be reached.",
        ),
        maxPages: integer(1_000, 1, 10_000_000, "Most pages of one source."),
        maxDepth: integer(5, 0, 100, "Most links from the first page."),
        delayMs: milliseconds(
          1_000,
          0,
          600_000,
          "Least time between two requests to one host; robots.txt may ask for more",
        ),
        concurrency: integer(4, 1, 64, "Hosts that are read at once."),
        maxPageBytes: integer(5_242_880, 1_024, 268_435_456, "Largest page, decompressed, in bytes."),
        timeoutMs: milliseconds(15_000, 100, 300_000, "Longest time for one page"),
        maxRedirects: integer(5, 0, 20, "Most redirects of one page."),
        domains: list(
          textOf("A host name."),
          1_000,
          "Further hosts that links are followed to. Empty: the source's own only.",
        ),
        allowPrivate: flag(
          false,
          "True: addresses of private networks and of this machine may be read too. Never where clients choose the sources.",
        ),
      },
      "How sites are read.",
    ),
    metrics: section(
      {
        host: text("127.0.0.1", "Address of the metrics server. It is not meant for the public."),
        port: Type.Optional(
          port(undefined, "Port of `GET /metrics`, such as 9093. No default: without one there is no such server."),
        ),
      },
      "Prometheus metrics of the search service.",
    ),
  },
  "The web search service (`turnpike search`).",
);
