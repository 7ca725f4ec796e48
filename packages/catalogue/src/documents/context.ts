import type { ServiceId } from "@turnpike/base";
import { isHostLabel } from "../registered.ts";
import type { Catalogue, Operation, Service } from "../types.ts";
import { exampleAnswer } from "./answer-examples.ts";

/** One way to pay, as it stands in `accepts` (x402 v2 `PaymentRequirements`). */
export interface PaymentOptionLike {
  readonly scheme: string;
  readonly network: string;
  readonly amount: string;
  readonly asset: string;
  readonly payTo: string;
  readonly maxTimeoutSeconds: number;
  readonly extra: Readonly<Record<string, unknown>>;
}

/** What the generated documents need to know beside the catalogue. */
export interface DocumentContext {
  /** Address of the gateway as clients see it, without a trailing slash. */
  readonly publicUrl: string;
  /** Ways to pay, in order of preference; a function where they depend on the service. */
  readonly options: readonly PaymentOptionLike[] | ((service: Service) => readonly PaymentOptionLike[]);
  /** Version of the product. */
  readonly version: string;
  /** Whether a service answers now. */
  readonly serves: (id: ServiceId) => boolean;
  /** Relay hosts are `{service_id}.<relayDomain>`. */
  readonly relayDomain: string;
  /** RFC 3339 time since which the catalogue is as it is, for `lastUpdated`. */
  readonly updatedAt?: string;
}

/** Ways to pay for a service. */
export function optionsOf(service: Service, { options }: DocumentContext): readonly PaymentOptionLike[] {
  return typeof options === "function" ? options(service) : options;
}

/** Address of a paid route. */
export function routeUrl(service: Service, { publicUrl }: DocumentContext): string {
  return `${publicUrl}/v1/${service.id}`;
}

/** Address of a service's image. */
export function iconUrl(service: Service, { publicUrl }: DocumentContext): string {
  return service.iconUrl ?? `${publicUrl}/icons/${service.id}.svg`;
}

/** Address of a free relay: a host of its own where its id can be one; scheme and port are the gateway's. */
export function relayUrl(service: Service, { publicUrl, relayDomain }: DocumentContext): string {
  if (!isHostLabel(service.id)) return `${publicUrl}/relay/${service.id}`;
  const { protocol, port } = new URL(publicUrl);
  return `${protocol}//${service.id}.${relayDomain}${port === "" ? "" : `:${port}`}`;
}

/** The services that are sold, in the catalogue's order. */
export function paidServices({ services }: Catalogue): readonly Service[] {
  return [...services.values()].filter(({ paid }) => paid);
}

/** True when the route's own body is the request, so that it names no method. */
export function takesOwnBody(service: Service): boolean {
  return service.operations.has("POST /");
}

/** The operation that a service's example calls: the route's own, else the first with an example, else the first. */
function exampleOperation(service: Service): Operation | undefined {
  const operations = [...service.operations.values()];
  return service.operations.get("POST /") ?? operations.find(({ example }) => example !== undefined) ?? operations[0];
}

/** A request body that the service takes: on its paid route, or, for JSON-RPC that is not sold, on the free relay. */
export function exampleBody(service: Service): Readonly<Record<string, unknown>> {
  const operation = exampleOperation(service);
  if (operation === undefined) return {};
  const body = operation.example ?? (takesOwnBody(service) ? {} : { method: operation.name });
  const isCall = operation.rpcType !== "rest";
  return service.paid || !isCall ? body : { jsonrpc: "2.0", id: 1, ...body };
}

/** Terms are made for each refused payment, and its schema's check takes longer than the rest of them. */
const dataByService = new WeakMap<Service, { readonly data: Readonly<Record<string, unknown>> | undefined }>();

/** What the service may answer to {@link exampleBody}; undefined when no example fits its schema. */
export function exampleData(service: Service): Readonly<Record<string, unknown>> | undefined {
  const known = dataByService.get(service);
  if (known !== undefined) return known.data;
  const operation = exampleOperation(service);
  const data = operation === undefined ? undefined : exampleAnswer(service, operation, exampleBody(service));
  dataByService.set(service, { data });
  return data;
}

/** The envelope of spec §2.3 around an example answer. */
export function exampleEnvelope(
  service: Service,
  data = exampleData(service) ?? {},
): Readonly<Record<string, unknown>> {
  return { portal: { provenance: "third-party-supplier", serviceId: service.id, schemaCheck: "passed" }, data };
}
