import { isRecord, parseJson } from "@turnpike/base";

/** Largest body of a search, in bytes (spec §4.1.1, §8). */
export const MAX_SEARCH_BODY_BYTES = 16_384;
/** Most results that are asked for; larger wishes are taken as this. */
export const MAX_SEARCH_RESULTS = 50;

/** One entry of a 422 (spec §2.5), in the words of pydantic 2 as FastAPI shows them. */
export interface SearchFault {
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  readonly type: string;
}

/** A search as its body asks for it, or why there is none. */
export type SearchRequest =
  | {
      readonly ok: true;
      /** As received. */
      readonly query: string;
      /** The query's JSON text, exactly as sent. */
      readonly rawQuery: string;
      /** At most {@link MAX_SEARCH_RESULTS}; undefined: the client did not say. */
      readonly maxResults: number | undefined;
    }
  | { readonly ok: false; readonly reason: "too_large" | "batch" }
  /** A key that the body repeats, at any level. */
  | { readonly ok: false; readonly reason: "duplicate"; readonly key: string }
  | { readonly ok: false; readonly reason: "invalid"; readonly detail: readonly SearchFault[] };

/** One fault of a search body; `at` is the path below the body. */
export const searchFault = (type: string, msg: string, ...at: readonly (string | number)[]): SearchFault => ({
  loc: ["body", ...at],
  msg,
  type,
});

const invalid = (...detail: readonly SearchFault[]): SearchRequest => ({ ok: false, reason: "invalid", detail });

const NO_OBJECT = "Input should be a valid dictionary or object to extract fields from";
const NO_INTEGER = "Input should be a valid integer";
const FRACTION = `${NO_INTEGER}, got a number with a fractional part`;

function queryFault(query: unknown): SearchFault | undefined {
  if (query === undefined) return searchFault("missing", "Field required", "query");
  if (typeof query !== "string") return searchFault("string_type", "Input should be a valid string", "query");
  if (query.trim() === "") {
    return searchFault("string_too_short", "String should have at least 1 character", "query");
  }
  if (!query.isWellFormed()) {
    const msg = "Input should be a valid string, unable to parse raw data as a unicode string";
    return searchFault("string_unicode", msg, "query");
  }
  // No text has it, and stores and engines end texts at it.
  if (query.includes("\0")) {
    return searchFault("value_error", "Value error, the character U+0000 is not allowed", "query");
  }
  return undefined;
}

function maxResultsFault(maxResults: unknown): SearchFault | undefined {
  if (maxResults === undefined) return undefined;
  if (typeof maxResults !== "number") return searchFault("int_type", NO_INTEGER, "max_results");
  if (maxResults === Number.POSITIVE_INFINITY) return undefined;
  // A fraction below 1 has both faults; pydantic names the fraction first.
  if (!Number.isInteger(maxResults) && maxResults !== Number.NEGATIVE_INFINITY) {
    return searchFault("int_from_float", FRACTION, "max_results");
  }
  if (maxResults >= 1) return undefined;
  return searchFault("greater_than_equal", "Input should be greater than or equal to 1", "max_results");
}

/**
 * Reads the body of a search (spec §2.5): `{query, max_results?}`, other members are left alone. The gateway's route and
 * the search service ask this one rule, so that what the one sells the other takes.
 */
export function parseSearchRequest(body: Uint8Array): SearchRequest {
  if (body.length > MAX_SEARCH_BODY_BYTES) return { ok: false, reason: "too_large" };
  if (body.length === 0) return invalid(searchFault("missing", "Field required"));
  const parsed = parseJson(body);
  if (!parsed.ok) {
    return parsed.reason === "duplicate"
      ? { ok: false, reason: "duplicate", key: parsed.key }
      : invalid(searchFault("json_invalid", "JSON decode error"));
  }
  const { value, members } = parsed;
  if (Array.isArray(value)) return { ok: false, reason: "batch" };
  if (!isRecord(value)) return invalid(searchFault("model_attributes_type", NO_OBJECT));
  const { query, max_results: wished } = value;
  const faults = [queryFault(query), maxResultsFault(wished)].filter((fault) => fault !== undefined);
  if (faults.length > 0 || typeof query !== "string") return invalid(...faults);
  return {
    ok: true,
    query,
    rawQuery: members.find(({ key }) => key === "query")?.raw ?? JSON.stringify(query),
    maxResults: typeof wished === "number" ? Math.min(wished, MAX_SEARCH_RESULTS) : undefined,
  };
}
