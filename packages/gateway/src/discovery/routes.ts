import type { ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { type Answer, errorAnswer } from "../http/answer.ts";
import type { Exchange } from "../http/request.ts";
import type { SystemRoute } from "../http/system-routes.ts";
import { createDocument, type Document, documentAnswer } from "./documents.ts";
import { INDEX_POLICY, indexDocument, indexPage, wantsHtml } from "./index-page.ts";
import { type Read, type ResourcePage, type ResourceSearch, readPage, readSearch } from "./query.ts";

/** True for a service that can answer now. */
type Serves = (id: ServiceId) => boolean;
/** Declared operations of a service that no supplier has now. */
type MissingMethods = (id: ServiceId) => ReadonlySet<string>;

/** The generated documents, as JSON values and texts. */
export interface Documents {
  openApi(): unknown;
  wellKnownX402(): unknown;
  apiCatalogue(): unknown;
  llmsText(serves: Serves): string;
  llmsFullText(): string;
  /** Large numbers are brought into range. */
  discoveryResources(page: ResourcePage): unknown;
  /** Large numbers are brought into range. */
  discoverySearch(search: ResourceSearch, serves: Serves): unknown;
  services(serves: Serves, missingMethods: MissingMethods): unknown;
  icon(service: Service): string;
  productIcon(): string;
}

/** All services, and what of them can be called now. */
interface Availability {
  readonly services: ReadonlyMap<ServiceId, Service>;
  readonly serves: Serves;
  readonly missingMethods: MissingMethods;
}

const MAX_AGE_SECONDS = 60;
const ICON_AGE_SECONDS = 86_400;
const PLAIN_TEXT = "text/plain; charset=utf-8";
const SVG = "image/svg+xml";
const LINK_SET = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"';
/** Indexers of paid routes probe them, so nothing is closed to robots. */
const ROBOTS =
  "# What there is here, for programs: /llms.txt, /openapi.json, /.well-known/x402\nUser-agent: *\nAllow: /\n";

/** Routes of the generated documents, by path. All but those that say who answers now are generated once. */
export function discoveryRoutes(
  modules: Availability & { readonly documents: Documents },
): ReadonlyMap<string, SystemRoute> {
  const { services, documents, serves, missingMethods } = modules;
  const resources = jsonDocument(documents.discoveryResources({}));
  return new Map<string, SystemRoute>([
    ...[...fixedDocuments(services, documents)].map(([path, document]) => [path, fixedRoute(document)] as const),
    ["/", indexRoute([...services.values()])],
    ["/discovery/resources", queriedRoute(readPage, (page) => documents.discoveryResources(page), resources)],
    ["/discovery/search", queriedRoute(readSearch, (search) => documents.discoverySearch(search, serves))],
    [
      "/services.json",
      new LiveDocument(modules, (now) =>
        createDocument("application/json", JSON.stringify(documents.services(now, missingMethods)), 0),
      ),
    ],
    [
      "/llms.txt",
      new LiveDocument(modules, (now) => createDocument(PLAIN_TEXT, documents.llmsText(now), MAX_AGE_SECONDS)),
    ],
  ]);
}

function fixedDocuments(services: Availability["services"], documents: Documents): ReadonlyMap<string, Document> {
  const openApi = jsonDocument(documents.openApi());
  const linkSet = JSON.stringify(documents.apiCatalogue());
  const icon = (svg: string): Document => createDocument(SVG, svg, ICON_AGE_SECONDS);
  const favicon = icon(documents.productIcon());
  return new Map([
    ["/openapi.json", openApi],
    ["/.well-known/openapi.json", openApi],
    ["/.well-known/x402", jsonDocument(documents.wellKnownX402())],
    ["/.well-known/api-catalog", createDocument(LINK_SET, linkSet, MAX_AGE_SECONDS)],
    ["/llms-full.txt", createDocument(PLAIN_TEXT, documents.llmsFullText(), MAX_AGE_SECONDS)],
    ["/robots.txt", createDocument(PLAIN_TEXT, ROBOTS, ICON_AGE_SECONDS)],
    ["/favicon.svg", favicon],
    ["/favicon.ico", favicon],
    ...[...services.values()].map((service) => [`/icons/${service.id}.svg`, icon(documents.icon(service))] as const),
  ]);
}

function fixedRoute(document: Document): SystemRoute {
  return { group: "discovery", get: (exchange) => documentAnswer(document, exchange) };
}

/** The index: a page for browsers, JSON for programs. */
function indexRoute(services: readonly Service[]): SystemRoute {
  const facts = { sold: services.filter(({ paid }) => paid).length, free: services.filter(({ free }) => free).length };
  const index = jsonDocument(indexDocument(facts));
  const page = createDocument("text/html; charset=utf-8", indexPage(facts), MAX_AGE_SECONDS);
  return {
    group: "discovery",
    get(exchange) {
      const isBrowser = wantsHtml(exchange.req.headers.accept);
      const more = isBrowser ? ["Content-Security-Policy", INDEX_POLICY, "Referrer-Policy", "no-referrer"] : [];
      return documentAnswer(isBrowser ? page : index, exchange, ["Vary", "Accept", ...more]);
    },
  };
}

/** A document that depends on the query; `whole` is the one without a query. */
function queriedRoute<T>(
  read: (query: string) => Read<T>,
  respond: (query: T) => unknown,
  whole?: Document,
): SystemRoute {
  return {
    group: "discovery",
    get(exchange) {
      if (whole !== undefined && exchange.target.query === "") return documentAnswer(whole, exchange);
      const query = read(exchange.target.query);
      if (!query.ok) return errorAnswer("MALFORMED_REQUEST", exchange.requestId, { message: query.fault });
      return documentAnswer(jsonDocument(respond(query.value)), exchange);
    },
  };
}

/** A document that is generated again when other services answer, or their suppliers have other methods. */
class LiveDocument implements SystemRoute {
  readonly group = "discovery";
  readonly #modules: Availability;
  readonly #generate: (serves: Serves) => Document;
  /** The newest document, and the services with their missing methods that it was generated for. */
  #last: { readonly serving: string; readonly document: Document } | undefined;

  constructor(modules: Availability, generate: (serves: Serves) => Document) {
    this.#modules = modules;
    this.#generate = generate;
  }

  get(exchange: Exchange): Answer {
    const { services, serves, missingMethods } = this.#modules;
    const ids = new Set([...services.keys()].filter(serves));
    const serving = [...ids].map((id) => [id, ...missingMethods(id)].join(" ")).join();
    if (this.#last?.serving !== serving) this.#last = { serving, document: this.#generate((id) => ids.has(id)) };
    return documentAnswer(this.#last.document, exchange);
  }
}

function jsonDocument(value: unknown): Document {
  return createDocument("application/json", JSON.stringify(value), MAX_AGE_SECONDS);
}
