import type { DiscoveryFilter, ServiceId } from "@turnpike/base";
import type { PaymentOptionLike } from "./context.ts";
import type { BazaarExtension } from "./payment-required.ts";

/** Which resources are listed. Numbers out of range are brought into it. */
export interface Page extends DiscoveryFilter {
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
}

/** What is searched for. Numbers out of range are brought into it. */
export interface DiscoverySearch extends DiscoveryFilter {
  /** Words in any order. */
  readonly query: string;
  readonly limit?: number | undefined;
  /** `pagination.cursor` of the page before; another text gives the first page. */
  readonly cursor?: string | undefined;
}

/** One resource of `/discovery/resources` and `/discovery/search`. */
export interface DiscoveryItem {
  readonly resource: string;
  readonly type: "http";
  readonly x402Version: 2;
  readonly accepts: readonly PaymentOptionLike[];
  readonly lastUpdated: string;
  readonly description: string;
  readonly mimeType: string;
  readonly serviceName: string;
  readonly tags: readonly string[];
  readonly iconUrl: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly extensions: { readonly bazaar: BazaarExtension };
}

/** `GET /discovery/resources`, in the form of x402's bazaar. */
export interface DiscoveryResources {
  readonly x402Version: 2;
  readonly items: readonly DiscoveryItem[];
  readonly pagination: { readonly limit: number; readonly offset: number; readonly total: number };
}

/** `GET /discovery/search`, in the form of x402's bazaar. */
export interface DiscoveryFound {
  readonly x402Version: 2;
  /** Best first. */
  readonly resources: readonly DiscoveryItem[];
  /** True when there are more than these. */
  readonly partialResults: boolean;
  /** `cursor` gives the next page; null at the end. */
  readonly pagination: { readonly limit: number; readonly cursor: string | null };
}

/** The paid routes as x402 resources. */
export interface Discovery {
  list(page?: Page): DiscoveryResources;
  /** `serves` ranks services that answer now before equals that do not. */
  search(search: DiscoverySearch, serves?: (id: ServiceId) => boolean): DiscoveryFound;
}
