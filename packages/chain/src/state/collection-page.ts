import { concatBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import type { baseQuery } from "@turnpike/proto";
import type { Collection } from "./collection.ts";
import type { Context } from "./context.ts";
import { type Page, pageOf } from "./pages.ts";

/** What a page is cut out of. */
export interface PageOptions<K, V, T> {
  /** What the request asks for; undefined: the first page. */
  readonly request: baseQuery.PageRequest | undefined;
  /** Only entries whose key bytes begin so; the keys of pages are what stands behind it. All entries when left out. */
  readonly within?: Bytes;
  /** What the page shows of an entry; undefined passes the entry over, which then does not count. */
  readonly item: (key: K, value: V) => T | undefined;
}

/** A page of a collection, in the order of its keys. */
export function collectionPage<K, V, T>(
  ctx: Context,
  collection: Collection<K, V>,
  { request, within = new Uint8Array(0), item }: PageOptions<K, V, T>,
): Page<T> {
  return pageOf(request, function* ({ from, to, reverse }) {
    const bounds = {
      ...(from === undefined ? {} : { from: concatBytes(within, from) }),
      ...(to === undefined ? {} : { to: concatBytes(within, to) }),
    };
    for (const [key, value] of collection.entries(ctx, { within, reverse, ...bounds })) {
      const shown = item(key, value);
      if (shown !== undefined) yield [collection.keyBytes(key).subarray(within.length), shown];
    }
  });
}
