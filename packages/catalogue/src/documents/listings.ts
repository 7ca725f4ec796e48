import { CATEGORIES } from "../override-schema.ts";
import type { Catalogue, Service } from "../types.ts";
import { type DocumentContext, exampleBody, iconUrl, optionsOf, paidServices, relayUrl, routeUrl } from "./context.ts";
import { type BazaarExtension, paymentRequired } from "./payment-required.ts";

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
  /** Methods, and paths with their verb, that can be called. */
  readonly methods: readonly string[];
}

function serviceItem(service: Service, context: DocumentContext): ServiceItem {
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
    methods: [...service.operations.keys()],
  };
}

/** `GET /services.json`: every service, for agents. */
export function servicesDocument(catalogue: Catalogue, context: DocumentContext): readonly ServiceItem[] {
  return [...catalogue.services.values()].map((service) => serviceItem(service, context));
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

/** Which part of a list is wanted. */
export interface Page {
  readonly limit?: number;
  readonly offset?: number;
}

/** One item of `/discovery/resources`. */
export interface DiscoveryItem {
  readonly resource: string;
  readonly type: "http";
  readonly x402Version: 2;
  readonly accepts: PaymentAccepts;
  readonly lastUpdated: string;
  readonly description: string;
  readonly mimeType: string;
  readonly serviceName: string;
  readonly tags: readonly string[];
  readonly iconUrl: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly extensions: { readonly bazaar: BazaarExtension };
}

type PaymentAccepts = ReturnType<typeof paymentRequired>["accepts"];

/** `GET /discovery/resources`, in the form of x402's bazaar. */
export interface DiscoveryResources {
  readonly x402Version: 2;
  readonly items: readonly DiscoveryItem[];
  readonly pagination: { readonly limit: number; readonly offset: number; readonly total: number };
}

/** Most items of one page. */
export const MAX_PAGE_ITEMS = 1_000;

const clamp = (value: number | undefined, fallback: number, least: number, most: number): number =>
  value === undefined || !Number.isFinite(value) ? fallback : Math.min(most, Math.max(least, Math.trunc(value)));

/** The paid routes as x402 resources. Values of `page` out of range are brought into it. */
export function discoveryResources(
  catalogue: Catalogue,
  context: DocumentContext,
  page: Page = {},
): DiscoveryResources {
  const all = paidServices(catalogue);
  const limit = clamp(page.limit, MAX_PAGE_ITEMS, 1, MAX_PAGE_ITEMS);
  const offset = clamp(page.offset, 0, 0, Number.MAX_SAFE_INTEGER);
  const items = all.slice(offset, offset + limit).map((service): DiscoveryItem => {
    const { accepts, resource, extensions } = paymentRequired(service, context);
    const { url, ...described } = resource;
    return {
      resource: url,
      type: "http",
      x402Version: 2,
      accepts,
      lastUpdated: context.updatedAt ?? "1970-01-01T00:00:00.000Z",
      ...described,
      metadata: { serviceId: service.id, category: service.category },
      extensions,
    };
  });
  return { x402Version: 2, items, pagination: { limit, offset, total: all.length } };
}

function llmsLine(service: Service, context: DocumentContext): string {
  const free = service.free ? ` Free relay: ${relayUrl(service, context)}` : "";
  const url = service.paid ? routeUrl(service, context) : relayUrl(service, context);
  const now = context.serves(service.id) ? " Serves now." : "";
  return `- [${service.name}](${url}): ${service.description}${free}${now}`;
}

/** `GET /llms.txt`: the service in words, for language models (llmstxt.org). */
export function llmsText(catalogue: Catalogue, context: DocumentContext): string {
  const { publicUrl } = context;
  const services = [...catalogue.services.values()].filter(({ paid, free }) => paid || free);
  const sections = CATEGORIES.flatMap((category) => {
    const members = services.filter((service) => service.category === category);
    if (members.length === 0) return [];
    return [`## ${category}`, "", ...members.map((service) => llmsLine(service, context)), ""];
  });
  const first = services.find(({ families, paid }) => paid && families.includes("evm"));
  const example =
    first === undefined
      ? []
      : [
          "",
          "```",
          `curl -i ${routeUrl(first, context)} -H 'content-type: application/json' -d '${JSON.stringify(exampleBody(first))}'`,
          "```",
        ];
  return [
    "# Turnpike",
    "",
    "> Metered, read-only access to blockchain nodes, web search and other services. Each call is paid by itself with " +
      "x402 version 2: no account, no key. A failed call is not charged.",
    "",
    "How to buy a call:",
    "",
    `1. \`POST ${publicUrl}/v1/{service_id}\` with a JSON body. Networks take \`{"method", "params"}\`; the method may ` +
      "also be `GET <path>` where the service lists paths.",
    "2. The answer is 402. Its terms are in the `PAYMENT-REQUIRED` header (base64 of JSON) and in the body.",
    "3. Sign one option of `accepts` (EIP-3009 `transferWithAuthorization`), and send the identical request with the " +
      "`PAYMENT-SIGNATURE` header. Client libraries of x402 do this for you.",
    '4. The answer is 200: `{"portal": {provenance, serviceId, schemaCheck}, "data": …}`. The receipt is in the ' +
      "`PAYMENT-RESPONSE` header. If the connection breaks, send the same request with the same signature again: it is " +
      "charged once.",
    ...example,
    "",
    "Services marked with a free relay also answer JSON-RPC there without payment, within limits. Those that are marked " +
      "`Serves now` answer at the moment; a call of another one is refused with 503 and not charged.",
    "",
    "## Documents",
    "",
    `- [services.json](${publicUrl}/services.json): every service with price, methods, and whether it answers now`,
    `- [openapi.json](${publicUrl}/openapi.json): OpenAPI 3.0.3 description of the paid routes`,
    `- [x402 resources](${publicUrl}/.well-known/x402): addresses of the paid routes`,
    `- [discovery](${publicUrl}/discovery/resources): the paid routes with their payment terms`,
    "",
    ...sections,
  ].join("\n");
}
