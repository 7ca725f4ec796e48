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

/** Maximum size of a page's items: one that is full by bytes ends early, with a next key. A larger item is a page of its own. */
const MAX_PAGE_BYTES = 1_048_576;

/** Where a page's walk begins and ends. */
export interface PageWalk {
  /** First key bytes. */
  readonly from?: Uint8Array;
  /** Key bytes that are no longer walked over. */
  readonly to?: Uint8Array;
  readonly reverse: boolean;
}

/** An entry of a walk. What it shows is made of those that are on the page, and not of those that are passed or counted. */
export interface PageEntry<T> {
  readonly key: Uint8Array;
  /** Undefined passes the entry over. */
  item(): T | undefined;
  /** Size of the item in an answer, more or less. */
  bytesOf(item: T): number;
}

/** Limits and counts of a page. */
export interface PageCut {
  /** Entries may be passed over, and do not count then: the item of each is made. */
  readonly passesOver?: boolean;
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
  walk: (options: PageWalk) => Iterable<PageEntry<T>>,
  { passesOver = false }: PageCut = {},
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
  let bytes = 0;
  let nextKey = new Uint8Array(0);
  let seen = 0n;
  const start = bytesToText(key);
  const bounds = key.length === 0 ? {} : reverse ? { to: concatBytes(key, Uint8Array.of(0)) } : { from: key };
  for (const entry of walk({ reverse, ...bounds })) {
    if (reverse && key.length > 0 && bytesToText(entry.key) > start) continue;
    const hasRoom = nextKey.length === 0 && BigInt(items.length) < limit && bytes < MAX_PAGE_BYTES;
    const isShown = seen >= offset && hasRoom;
    const item = isShown || passesOver ? entry.item() : undefined;
    if (item === undefined && (isShown || passesOver)) continue;
    seen++;
    if (seen <= offset) continue;
    if (isShown && item !== undefined) {
      items.push(item);
      bytes += entry.bytesOf(item);
      continue;
    }
    if (nextKey.length === 0) nextKey = Uint8Array.from(entry.key);
    if (!counts) break;
  }
  return {
    ok: true,
    items,
    pagination: createMessage(schemas.PageResponseSchema, { nextKey, total: counts ? seen : 0n }),
  };
}
