import type { DiscoveryFilter } from "@turnpike/base";
import type { Catalogue, Service } from "../types.ts";
import { type DocumentContext, paidServices } from "./context.ts";
import { createRanking, type Ranking } from "./discovery-ranking.ts";
import type { Discovery, DiscoveryItem, DiscoveryResources, Page } from "./discovery-types.ts";
import { bazaarInFull, paymentRequired } from "./payment-required.ts";

/** Most items of one page of a list. */
const MAX_PAGE_ITEMS = 1_000;
const FOUND = { fallback: 20, most: 100 };

const clamp = (value: number | undefined, fallback: number, least: number, most: number): number =>
  value === undefined || !Number.isFinite(value) ? fallback : Math.min(most, Math.max(least, Math.trunc(value)));

function discoveryItem(service: Service, context: DocumentContext): DiscoveryItem {
  const { accepts, resource } = paymentRequired(service, context);
  const { url, ...described } = resource;
  return {
    resource: url,
    type: "http",
    x402Version: 2,
    accepts,
    lastUpdated: context.updatedAt ?? "1970-01-01T00:00:00.000Z",
    ...described,
    metadata: { serviceId: service.id, category: service.category },
    extensions: { bazaar: bazaarInFull(service) },
  };
}

/** An EVM address may be written in either case. */
const sameAddress = (a: string, b: string): boolean =>
  a === b || (/^0x[0-9a-f]{40}$/i.test(a) && a.toLowerCase() === b.toLowerCase());

function matches(item: DiscoveryItem, { type, payTo, scheme, network, extensions }: DiscoveryFilter): boolean {
  if (type !== undefined && type !== item.type) return false;
  if (extensions !== undefined && !Object.hasOwn(item.extensions, extensions)) return false;
  if (payTo === undefined && scheme === undefined && network === undefined) return true;
  return item.accepts.some(
    (option) =>
      (payTo === undefined || sameAddress(payTo, option.payTo)) &&
      (scheme === undefined || scheme === option.scheme) &&
      (network === undefined || network === option.network),
  );
}

/**
 * The paid routes as x402 resources, to be listed and searched. What is said of each route is made once, when it is
 * first needed.
 */
export function createDiscovery(catalogue: Catalogue, context: DocumentContext): Discovery {
  let made: { readonly items: readonly DiscoveryItem[]; readonly ranking: Ranking } | undefined;
  const all = (): { readonly items: readonly DiscoveryItem[]; readonly ranking: Ranking } => {
    const services = paidServices(catalogue);
    made ??= { items: services.map((service) => discoveryItem(service, context)), ranking: createRanking(services) };
    return made;
  };
  return {
    list(page = {}) {
      const found = all().items.filter((item) => matches(item, page));
      const limit = clamp(page.limit, MAX_PAGE_ITEMS, 1, MAX_PAGE_ITEMS);
      const offset = clamp(page.offset, 0, 0, Number.MAX_SAFE_INTEGER);
      const pagination = { limit, offset, total: found.length };
      return { x402Version: 2, items: found.slice(offset, offset + limit), pagination };
    },
    search(search, serves = context.serves) {
      const { items, ranking } = all();
      const found = ranking
        .rank(search.query, serves)
        .flatMap((index) => items[index] ?? [])
        .filter((item) => matches(item, search));
      const limit = clamp(search.limit, FOUND.fallback, 1, FOUND.most);
      const start = /^[0-9]{1,6}$/.test(search.cursor ?? "") ? Number(search.cursor) : 0;
      const resources = found.slice(start, start + limit);
      const hasMore = start + limit < found.length;
      const cursor = hasMore ? String(start + limit) : null;
      return { x402Version: 2, resources, partialResults: hasMore, pagination: { limit: resources.length, cursor } };
    },
  };
}

/** One page of the paid routes; for more than one, keep a {@link createDiscovery}. */
export function discoveryResources(
  catalogue: Catalogue,
  context: DocumentContext,
  page: Page = {},
): DiscoveryResources {
  return createDiscovery(catalogue, context).list(page);
}
