import { concatBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import type { baseQuery } from "@turnpike/proto";
import type { Collection } from "./collection.ts";
import type { Context } from "./context.ts";
import { type Page, type PageCut, pageOf } from "./pages.ts";

/** What a page is cut out of. */
export interface PageOptions<K, V, T> extends PageCut {
  /** What the request asks for; undefined: the first page. */
  readonly request: baseQuery.PageRequest | undefined;
  /** Only entries whose key bytes begin so; the keys of pages are what stands behind it. All entries when left out. */
  readonly within?: Bytes;
  /** Returns the item of an entry; undefined skips the entry. */
  readonly item: (key: K, value: V) => T | undefined;
  /** Size of an item in an answer; by default that of its entry's value, of an index its key. */
  readonly bytesOf?: (item: T) => number;
}

/** A page of a collection, in the order of its keys. Entries that it does not show are not decoded. */
export function collectionPage<K, V, T>(
  ctx: Context,
  collection: Collection<K, V>,
  { request, within = new Uint8Array(0), item, bytesOf, ...cut }: PageOptions<K, V, T>,
): Page<T> {
  return pageOf(
    request,
    function* ({ from, to, reverse }) {
      const bounds = {
        ...(from === undefined ? {} : { from: concatBytes(within, from) }),
        ...(to === undefined ? {} : { to: concatBytes(within, to) }),
      };
      for (const [key, value] of collection.rawEntries(ctx, { within, reverse, ...bounds })) {
        yield {
          key: key.subarray(within.length),
          item: () => {
            const [decodedKey, decodedValue] = collection.decode(key, value);
            return item(decodedKey, decodedValue);
          },
          bytesOf: bytesOf ?? (() => Math.max(key.length, value.length)),
        };
      }
    },
    cut,
  );
}
