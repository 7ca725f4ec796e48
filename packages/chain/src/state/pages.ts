import { type baseQuery, createMessage, baseQuery as schemas } from "@turnpike/proto";
import { bytesToText } from "./bytes.ts";

/** Entries of a page when the question names no limit. */
export const DEFAULT_PAGE_ENTRIES = 100n;

/** One page of a list, or the gRPC text of what is wrong with the request. */
export type Page<T> =
  | { readonly ok: true; readonly items: readonly T[]; readonly pagination: baseQuery.PageResponse }
  | { readonly ok: false; readonly text: string };

/**
 * Cuts a page out of ordered entries, as the SDK does: by key or by offset, in either direction; the total is counted when
 * asked for, or when there is no request, and never with a key.
 * @param walk gives the entries with the bytes of their keys, from the key on when there is one
 */
export function pageOf<T>(
  request: baseQuery.PageRequest | undefined,
  walk: (options: { from?: Uint8Array; reverse: boolean }) => Iterable<readonly [key: Uint8Array, item: T]>,
): Page<T> {
  const key = request?.key ?? new Uint8Array(0);
  const offset = request?.offset ?? 0n;
  if (key.length > 0 && offset > 0n)
    return { ok: false, text: "invalid request, either offset or key is expected, got both" };
  const wanted = request?.limit ?? 0n;
  const limit = wanted === 0n ? DEFAULT_PAGE_ENTRIES : wanted;
  const counts = key.length === 0 && (request === undefined || wanted === 0n || request.countTotal);
  const reverse = request?.reverse === true;
  const items: T[] = [];
  let nextKey = new Uint8Array(0);
  let seen = 0n;
  const from = bytesToText(key);
  for (const [at, item] of walk({ reverse, ...(key.length > 0 && !reverse ? { from: key } : {}) })) {
    if (reverse && key.length > 0 && bytesToText(at) > from) continue;
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
