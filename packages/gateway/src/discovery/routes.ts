import type { ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { SystemRoute } from "../http/system-routes.ts";
import { createDocument, type Document, documentAnswer } from "./documents.ts";

/** Tells which services answer now. */
type Serves = (id: ServiceId) => boolean;

/** The generated documents, as JSON values and texts. */
export interface Documents {
  openApi(): unknown;
  wellKnownX402(): unknown;
  llmsText(serves: Serves): string;
  /** `page` may hold anything a client sends: values out of range are brought into it. */
  discoveryResources(page: { readonly limit?: number; readonly offset?: number }): unknown;
  services(serves: Serves): unknown;
  icon(service: Service): string;
}

/** What {@link discoveryRoutes} works with. */
export interface DiscoveryModules {
  readonly services: ReadonlyMap<ServiceId, Service>;
  readonly documents: Documents;
  readonly serves: Serves;
}

const MAX_AGE_SECONDS = 60;
const ICON_AGE_SECONDS = 86_400;

/** Routes of the generated documents. All but those that say who answers now are made once. */
export function discoveryRoutes(modules: DiscoveryModules): ReadonlyMap<string, SystemRoute> {
  const { services, documents, serves } = modules;
  const routes = new Map<string, SystemRoute>();
  const fixed = (path: string, document: Document): void => {
    routes.set(path, { door: "discovery", get: (exchange) => documentAnswer(document, exchange) });
  };
  const json = (value: unknown): Document => createDocument("application/json", JSON.stringify(value), MAX_AGE_SECONDS);

  fixed("/openapi.json", json(documents.openApi()));
  fixed("/.well-known/x402", json(documents.wellKnownX402()));
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

  /** A document that is made anew when other services answer. */
  const live = (path: string, type: string, maxAgeSeconds: number, text: (serves: Serves) => string): void => {
    let made: { readonly serving: string; readonly document: Document } | undefined;
    routes.set(path, {
      door: "discovery",
      get(exchange) {
        const ids = new Set([...services.keys()].filter(serves));
        const serving = [...ids].join();
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
  live("/services.json", "application/json", 0, (now) => JSON.stringify(documents.services(now)));
  live("/llms.txt", "text/plain; charset=utf-8", MAX_AGE_SECONDS, (now) => documents.llmsText(now));
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
