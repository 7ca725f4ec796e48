import type { TableRequest } from "../types.ts";

/** `Range`, read. `isEmpty`: its end is before its start. */
export interface RangeResult {
  readonly range: TableRequest["range"];
  readonly isEmpty: boolean;
}

const NONE: RangeResult = { range: undefined, isEmpty: false };

/** Reads `Range: 0-9` with `Range-Unit: items`, which counts for GET alone. What is no such range is as if not sent. */
export function readRange(verb: string, range: string | undefined, unit: string | undefined): RangeResult {
  if (verb !== "GET" || range === undefined) return NONE;
  if (unit !== undefined && unit.trim().toLowerCase() !== "items") return NONE;
  const match = /^(\d{1,15})-(\d{0,15})$/.exec(range.trim());
  if (match === null) return NONE;
  const from = Number(match[1]);
  const to = match[2] === "" || match[2] === undefined ? undefined : Number(match[2]);
  return { range: { from, to }, isEmpty: to !== undefined && to < from };
}

/** `Content-Range` of rows `first`..`last` out of `total`; `*` for what is not known, or not there. */
export function contentRange(first: number, last: number, total: number | undefined): string {
  const rows = total !== 0 && first <= last ? `${first}-${last}` : "*";
  return `${rows}/${total ?? "*"}`;
}

/** Status of a read: 206 for a part, 416 for an offset beyond the end, both only when the total is known. */
export function rangeStatus(first: number, last: number, total: number | undefined): 200 | 206 | 416 {
  if (total === undefined) return 200;
  if (first > total) return 416;
  return 1 + last - first < total ? 206 : 200;
}
