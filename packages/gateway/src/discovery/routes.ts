import type { ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { SystemRoute } from "../http/system-routes.ts";
import { createDocument, type Document, documentAnswer } from "./documents.ts";

/** The generated documents, as JSON values and texts. */
export interface Documents {
  openApi(): unknown;
  wellKnownX402(): unknown;
  llmsText(): string;
  /** `page` may hold anything a client sends: values out of range are brought into it. */
  discoveryResources(page: { readonly limit?: number; readonly offset?: number }): unknown;
  services(serves: (id: ServiceId) => boolean): unknown;
  icon(service: Service): string;
}

/** What {@link discoveryRoutes} works with. */
export interface DiscoveryModules {
  readonly services: ReadonlyMap<ServiceId, Service>;
  readonly documents: Documents;
  readonly serves: (id: ServiceId) => boolean;
}

const MAX_AGE_SECONDS = 60;
const ICON_AGE_SECONDS = 86_400;

/** Routes of the generated documents. All but the list of services, which says who answers now, are made once. */
export function discoveryRoutes(modules: DiscoveryModules): ReadonlyMap<string, SystemRoute> {
  const { services, documents, serves } = modules;
  const routes = new Map<string, SystemRoute>();
  const fixed = (path: string, document: Document): void => {
    routes.set(path, { door: "discovery", get: (exchange) => documentAnswer(document, exchange) });
  };
  const json = (value: unknown): Document => createDocument("application/json", JSON.stringify(value), MAX_AGE_SECONDS);

  fixed("/openapi.json", json(documents.openApi()));
  fixed("/.well-known/x402", json(documents.wellKnownX402()));
  fixed("/llms.txt", createDocument("text/plain; charset=utf-8", documents.llmsText(), MAX_AGE_SECONDS));
  for (const service of services.values()) {
    fixed(`/icons/${service.id}.svg`, createDocument("image/svg+xml", documents.icon(service), ICON_AGE_SECONDS));
  }
  fixed("/", json(index()));

  const resources = json(documents.discoveryResources({}));
  routes.set("/discovery/resources", {
    door: "discovery",
    get(exchange) {
      const query = new URLSearchParams(exchange.target.query);
      const [limit, offset] = [numberOf(query.get("limit")), numberOf(query.get("offset"))];
      if (limit === undefined && offset === undefined) return documentAnswer(resources, exchange);
      const page = { ...(limit === undefined ? {} : { limit }), ...(offset === undefined ? {} : { offset }) };
      return documentAnswer(json(documents.discoveryResources(page)), exchange);
    },
  });

  let live: { readonly serving: string; readonly document: Document } | undefined;
  routes.set("/services.json", {
    door: "discovery",
    get(exchange) {
      const ids = new Set([...services.keys()].filter(serves));
      const serving = [...ids].join();
      if (live?.serving !== serving) {
        const text = JSON.stringify(documents.services((id) => ids.has(id)));
        live = { serving, document: createDocument("application/json", text, 0) };
      }
      return documentAnswer(live.document, exchange);
    },
  });
  return routes;
}

function numberOf(text: string | null): number | undefined {
  return text !== null && /^[0-9]{1,9}$/.test(text) ? Number(text) : undefined;
}

function index(): unknown {
  return {
    name: "Turnpike",
    description: "Metered access to blockchain nodes and other services, paid per request with x402.",
    links: {
      services: "/services.json",
      openapi: "/openapi.json",
      x402: "/.well-known/x402",
      resources: "/discovery/resources",
      llms: "/llms.txt",
      health: "/health",
      ready: "/ready",
    },
  };
}
