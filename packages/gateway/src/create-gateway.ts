import {
  apiCatalogue,
  createDiscovery,
  iconSvg,
  llmsFullText,
  llmsText,
  openApiDocument,
  paymentRequired,
  productIconSvg,
  servicesDocument,
  wellKnownX402,
} from "@turnpike/catalogue";
import { checkPath, isListed, parsePaid } from "@turnpike/relay";
import { GatewayServer, type PartsOf } from "./gateway.ts";
import type { Gateway, GatewayModules, GatewayOptions } from "./types.ts";

/**
 * The gateway: paid routes, free relay, discovery and monitoring on one port, metrics on another. It owns neither
 * payment nor relay: dispose it before them.
 */
export function createGateway(opts: GatewayOptions, modules: GatewayModules): Gateway {
  const parts: PartsOf = (publicUrl, { version, relayDomain }, { catalogue, options }) => {
    const updatedAt = new Date(modules.clock.nowMs()).toISOString();
    const base = { publicUrl, options, version, relayDomain, updatedAt };
    const context = { ...base, serves: () => false };
    const discovery = createDiscovery(catalogue, context);
    return {
      publicUrl,
      termsOf: (service, error) => paymentRequired(service, context, error),
      parse: parsePaid,
      matchPath(service, appendedPath) {
        if (checkPath(appendedPath) === "bad") return "BAD_PATH";
        return isListed(service, appendedPath) ? "listed" : "NOT_FOUND";
      },
      documents: {
        openApi: () => openApiDocument(catalogue, context),
        wellKnownX402: () => wellKnownX402(catalogue, context),
        apiCatalogue: () => apiCatalogue(context),
        llmsText: (serves) => llmsText(catalogue, { ...base, serves }),
        llmsFullText: () => llmsFullText(catalogue, context),
        discoveryResources: (page) => discovery.list(page),
        discoverySearch: (search, serves) => discovery.search(search, serves),
        services: (serves, missingMethods) => servicesDocument(catalogue, { ...base, serves }, missingMethods),
        icon: iconSvg,
        productIcon: productIconSvg,
      },
    };
  };
  return new GatewayServer(opts, { ...modules, parts });
}
