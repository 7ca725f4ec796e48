/** What `/discovery/resources` and `/discovery/search` filter by, as x402's bazaar extension names it. */
interface ResourceFilter {
  readonly type?: string;
  readonly payTo?: string;
  readonly scheme?: string;
  readonly network?: string;
  readonly extensions?: string;
}

/** Query of `/discovery/resources`. */
export interface ResourcePage extends ResourceFilter {
  readonly limit?: number;
  readonly offset?: number;
}

/** Query of `/discovery/search`. */
export interface ResourceSearch extends ResourceFilter {
  readonly query: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** A query as it was read; `fault` is safe to show. */
export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

const TEXTS = ["type", "payTo", "scheme", "network", "extensions", "cursor", "query"] as const;
const NUMBERS = { limit: 1, offset: 0 } as const;
/** Longest value of a parameter, in UTF-16 units. */
const MAX_TEXT_LENGTH = 512;

type Values = Readonly<Partial<Record<(typeof TEXTS)[number], string> & Record<keyof typeof NUMBERS, number>>>;

/** Reads the parameters that are known; others are left alone, as indexers add their own. */
function readValues(query: string): Read<Values> {
  const given = new URLSearchParams(query);
  const values: Record<string, string | number> = {};
  for (const name of [...TEXTS, ...(Object.keys(NUMBERS) as (keyof typeof NUMBERS)[])]) {
    const [value, ...more] = given.getAll(name);
    if (value === undefined) continue;
    if (more.length > 0) return { ok: false, fault: `${name} is given more than once.` };
    if (name === "limit" || name === "offset") {
      const least = NUMBERS[name];
      const isNumber = /^[0-9]{1,9}$/.test(value) && Number(value) >= least;
      if (!isNumber) return { ok: false, fault: `${name} must be a whole number of at least ${least}.` };
      values[name] = Number(value);
    } else {
      if (value.length > MAX_TEXT_LENGTH) return { ok: false, fault: `${name} is longer than ${MAX_TEXT_LENGTH}.` };
      values[name] = value;
    }
  }
  return { ok: true, value: values };
}

/** Reads the query of `/discovery/resources`. Large limits are left to the list, which caps them. */
export function readPage(query: string): Read<ResourcePage> {
  const read = readValues(query);
  if (!read.ok) return read;
  const { query: _words, cursor: _cursor, ...page } = read.value;
  return { ok: true, value: page };
}

/** Reads the query of `/discovery/search`. */
export function readSearch(query: string): Read<ResourceSearch> {
  const read = readValues(query);
  if (!read.ok) return read;
  const { query: words = "", offset: _offset, ...search } = read.value;
  if (words.trim() === "") return { ok: false, fault: "query is missing." };
  return { ok: true, value: { ...search, query: words } };
}
