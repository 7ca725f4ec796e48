import type { ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { errorAnswer } from "../http/answer.ts";
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

export interface DiscoveryModules {
  readonly services: ReadonlyMap<ServiceId, Service>;
  readonly documents: Documents;
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

/** Routes of the generated documents. All but those that say who answers now are made once. */
export function discoveryRoutes(modules: DiscoveryModules): ReadonlyMap<string, SystemRoute> {
  const { services, documents, serves, missingMethods } = modules;
  const routes = new Map<string, SystemRoute>();
  const fixed = (path: string, document: Document): void => {
    routes.set(path, { group: "discovery", get: (exchange) => documentAnswer(document, exchange) });
  };
  const json = (value: unknown): Document => createDocument("application/json", JSON.stringify(value), MAX_AGE_SECONDS);

  const openApi = json(documents.openApi());
  fixed("/openapi.json", openApi);
  fixed("/.well-known/openapi.json", openApi);
  fixed("/.well-known/x402", json(documents.wellKnownX402()));
  const linkSet = JSON.stringify(documents.apiCatalogue());
  fixed("/.well-known/api-catalog", createDocument(LINK_SET, linkSet, MAX_AGE_SECONDS));
  fixed("/llms-full.txt", createDocument(PLAIN_TEXT, documents.llmsFullText(), MAX_AGE_SECONDS));
  fixed("/robots.txt", createDocument(PLAIN_TEXT, ROBOTS, ICON_AGE_SECONDS));
  const favicon = createDocument(SVG, documents.productIcon(), ICON_AGE_SECONDS);
  fixed("/favicon.svg", favicon);
  fixed("/favicon.ico", favicon);
  for (const service of services.values()) {
    fixed(`/icons/${service.id}.svg`, createDocument(SVG, documents.icon(service), ICON_AGE_SECONDS));
  }

  const all = [...services.values()];
  const facts = { sold: all.filter(({ paid }) => paid).length, free: all.filter(({ free }) => free).length };
  const index = json(indexDocument(facts));
  const page = createDocument("text/html; charset=utf-8", indexPage(facts), MAX_AGE_SECONDS);
  routes.set("/", {
    group: "discovery",
    get(exchange) {
      const isBrowser = wantsHtml(exchange.req.headers.accept);
      const more = isBrowser ? ["Content-Security-Policy", INDEX_POLICY, "Referrer-Policy", "no-referrer"] : [];
      return documentAnswer(isBrowser ? page : index, exchange, ["Vary", "Accept", ...more]);
    },
  });

  /** A document that depends on its query; `whole` is the one without a query. */
  const asked = <T>(
    path: string,
    read: (query: string) => Read<T>,
    answer: (value: T) => unknown,
    whole?: Document,
  ): void => {
    routes.set(path, {
      group: "discovery",
      get(exchange) {
        if (whole !== undefined && exchange.target.query === "") return documentAnswer(whole, exchange);
        const query = read(exchange.target.query);
        if (!query.ok) return errorAnswer("MALFORMED_REQUEST", exchange.requestId, { message: query.fault });
        return documentAnswer(json(answer(query.value)), exchange);
      },
    });
  };
  const resources = json(documents.discoveryResources({}));
  asked<ResourcePage>("/discovery/resources", readPage, (page) => documents.discoveryResources(page), resources);
  asked<ResourceSearch>("/discovery/search", readSearch, (search) => documents.discoverySearch(search, serves));

  /** A document that is made anew when other services answer, or their suppliers have other methods. */
  const live = (path: string, type: string, maxAgeSeconds: number, text: (serves: Serves) => string): void => {
    let made: { readonly serving: string; readonly document: Document } | undefined;
    routes.set(path, {
      group: "discovery",
      get(exchange) {
        const ids = new Set([...services.keys()].filter(serves));
        const serving = [...ids].map((id) => [id, ...missingMethods(id)].join(" ")).join();
        if (made?.serving !== serving) {
          made = {
            serving,
            document: createDocument(
              type,
              text((id) => ids.has(id)),
              maxAgeSeconds,
            ),
          };
        }
        return documentAnswer(made.document, exchange);
      },
    });
  };
  live("/services.json", "application/json", 0, (now) => JSON.stringify(documents.services(now, missingMethods)));
  live("/llms.txt", PLAIN_TEXT, MAX_AGE_SECONDS, (now) => documents.llmsText(now));
  return routes;
}
