import { concatBytes } from "@turnpike/base";
import { type baseQuery, createMessage, baseQuery as schemas } from "@turnpike/proto";
import { bytesToText } from "./bytes.ts";

/** Entries of a page when the question names no limit. */
const DEFAULT_PAGE_ENTRIES = 100n;

/**
 * Most entries of a page, whatever the question's limit is: a page is made in one turn of the event loop. The answer's
 * next key says that there is more.
 */
const MOST_PAGE_ENTRIES = 10_000n;

/** Where a page's walk begins and ends. */
export interface PageWalk {
  /** First key bytes. */
  readonly from?: Uint8Array;
  /** Key bytes that are no longer walked over. */
  readonly to?: Uint8Array;
  readonly reverse: boolean;
}

/** One page of a list, or the gRPC text of what is wrong with the request. */
export type Page<T> =
  | { readonly ok: true; readonly items: readonly T[]; readonly pagination: baseQuery.PageResponse }
  | { readonly ok: false; readonly text: string };

/**
 * Cuts a page out of ordered entries, as the SDK does: by key or by offset, in either direction; the total is counted when
 * asked for, or when there is no request, and never with a key.
 * @param walk gives the entries with the bytes of their keys; it may leave bounds out of account
 */
export function pageOf<T>(
  request: baseQuery.PageRequest | undefined,
  walk: (options: PageWalk) => Iterable<readonly [key: Uint8Array, item: T]>,
): Page<T> {
  const key = request?.key ?? new Uint8Array(0);
  const offset = request?.offset ?? 0n;
  if (key.length > 0 && offset > 0n)
    return { ok: false, text: "invalid request, either offset or key is expected, got both" };
  const wanted = request?.limit ?? 0n;
  const limit = wanted === 0n ? DEFAULT_PAGE_ENTRIES : wanted < MOST_PAGE_ENTRIES ? wanted : MOST_PAGE_ENTRIES;
  const counts = key.length === 0 && (request === undefined || wanted === 0n || request.countTotal);
  const reverse = request?.reverse === true;
  const items: T[] = [];
  let nextKey = new Uint8Array(0);
  let seen = 0n;
  const start = bytesToText(key);
  const bounds = key.length === 0 ? {} : reverse ? { to: concatBytes(key, Uint8Array.of(0)) } : { from: key };
  for (const [at, item] of walk({ reverse, ...bounds })) {
    if (reverse && key.length > 0 && bytesToText(at) > start) continue;
    seen++;
    if (seen <= offset) continue;
    if (BigInt(items.length) < limit) items.push(item);
    else {
      if (nextKey.length === 0) nextKey = Uint8Array.from(at);
      if (!counts) break;
    }
  }
  return {
    ok: true,
    items,
    pagination: createMessage(schemas.PageResponseSchema, { nextKey, total: counts ? seen : 0n }),
  };
}
