import type { ServiceId } from "@turnpike/base";
import type { Catalogue, Service } from "../types.ts";
import { type DocumentContext, exampleBody, iconUrl, optionsOf, paidServices, relayUrl, routeUrl } from "./context.ts";

/** One way to pay, as `/services.json` shows it. */
export interface Rail {
  readonly scheme: string;
  readonly network: string;
  readonly asset: string;
  readonly amount: string;
}

/** One item of `/services.json`. */
export interface ServiceItem {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly category: string;
  readonly tags: readonly string[];
  readonly operationId: string;
  readonly price: { readonly amount: string; readonly currency: "USD" };
  readonly families: readonly string[];
  readonly network?: string;
  readonly evmChainId?: number;
  readonly chainId?: string;
  /** Whether it answers now. */
  readonly serves: boolean;
  readonly paid: boolean;
  readonly free: boolean;
  readonly rails: readonly Rail[];
  /** Address of the paid route. */
  readonly url?: string;
  /** Address of the free relay. */
  readonly relayUrl?: string;
  readonly iconUrl: string;
  /** JSON pointer of the route in `/openapi.json`. */
  readonly openApiPath?: string;
  readonly maxBodyBytes: number;
  readonly example: Readonly<Record<string, unknown>>;
  /** Methods, and paths with their verb, that can be called; without those that no supplier has now. */
  readonly methods: readonly string[];
}

/** Operations of a service that none of its suppliers has now. */
export type MissingMethods = (id: ServiceId) => ReadonlySet<string>;

const NONE: ReadonlySet<string> = new Set();

function serviceItem(service: Service, context: DocumentContext, missing: ReadonlySet<string>): ServiceItem {
  const rails = service.paid ? optionsOf(service, context) : [];
  return {
    id: service.id,
    name: service.name,
    description: service.description,
    category: service.category,
    tags: service.tags,
    operationId: service.operationId,
    price: { amount: service.price, currency: "USD" },
    families: service.families,
    ...(service.network === undefined ? {} : { network: service.network }),
    ...(service.evmChainId === undefined ? {} : { evmChainId: service.evmChainId }),
    ...(service.chainId === undefined ? {} : { chainId: service.chainId }),
    serves: context.serves(service.id),
    paid: service.paid,
    free: service.free,
    rails: rails.map(({ scheme, network, asset, amount }) => ({ scheme, network, asset, amount })),
    ...(service.paid ? { url: routeUrl(service, context), openApiPath: `/paths/~1v1~1${service.id}/post` } : {}),
    ...(service.free ? { relayUrl: relayUrl(service, context) } : {}),
    iconUrl: iconUrl(service, context),
    maxBodyBytes: service.maxBodyBytes,
    example: exampleBody(service),
    methods: [...service.operations.keys()].filter((name) => !missing.has(name)),
  };
}

/** `GET /services.json`: every service, for agents. */
export function servicesDocument(
  catalogue: Catalogue,
  context: DocumentContext,
  missingMethods: MissingMethods = () => NONE,
): readonly ServiceItem[] {
  return [...catalogue.services.values()].map((service) => serviceItem(service, context, missingMethods(service.id)));
}

/** `GET /.well-known/x402`: the addresses that are sold. */
export interface WellKnownX402 {
  readonly version: 1;
  readonly x402Version: 2;
  readonly resources: readonly string[];
  readonly openapi: string;
  readonly services: string;
  readonly instructions: string;
}

/** `GET /.well-known/x402`, in the form that x402 indexers read. */
export function wellKnownX402(catalogue: Catalogue, context: DocumentContext): WellKnownX402 {
  return {
    version: 1,
    x402Version: 2,
    resources: paidServices(catalogue).map((service) => routeUrl(service, context)),
    openapi: `${context.publicUrl}/openapi.json`,
    services: `${context.publicUrl}/services.json`,
    instructions:
      "POST a JSON body to a resource; sign one of the `accepts` of its 402 and send the identical request again " +
      "with the PAYMENT-SIGNATURE header. A failed call is not charged.",
  };
}

/** `GET /.well-known/api-catalog`: a link set (RFC 9727, RFC 9264) of the documents. */
export interface ApiCatalogue {
  readonly linkset: readonly Readonly<Record<string, unknown>>[];
}

/** `GET /.well-known/api-catalog`. */
export function apiCatalogue({ publicUrl }: DocumentContext): ApiCatalogue {
  const link = (path: string, type: string): unknown => ({ href: `${publicUrl}${path}`, type });
  return {
    linkset: [
      {
        anchor: `${publicUrl}/`,
        "service-desc": [link("/openapi.json", "application/json")],
        "service-doc": [link("/llms.txt", "text/plain"), link("/llms-full.txt", "text/plain")],
        "service-meta": [
          link("/.well-known/x402", "application/json"),
          link("/discovery/resources", "application/json"),
          link("/services.json", "application/json"),
        ],
        status: [link("/ready", "application/json")],
      },
    ],
  };
}
