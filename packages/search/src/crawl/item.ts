/** One address of a source. */
export interface Item {
  readonly id: number;
  readonly isListing: boolean;
  readonly url: string;
  /** Host with port. */
  readonly host: string;
  readonly depth: number;
  /** Redirects on the way to it. */
  readonly redirects: number;
  readonly attempts: number;
  readonly run: number;
  readonly isWaiting: boolean;
  /** True while the index holds its document. */
  readonly isDoc: boolean;
  readonly etag: string | undefined;
  readonly modified: string | undefined;
  readonly hash: string | undefined;
  /** The address that the page calls its own, where it is another one. */
  readonly canonical: string | undefined;
  readonly links: readonly string[];
}

/** A row of the state's file. */
export type Row = Record<string, unknown>;

/** A column's text; undefined for NULL. */
export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Reads a row of `item`. */
export function itemOf(row: Row): Item {
  const links = textOf(row.links);
  return {
    id: Number(row.id),
    isListing: row.is_listing === 1,
    url: String(row.url),
    host: String(row.host),
    depth: Number(row.depth),
    redirects: Number(row.redirects),
    attempts: Number(row.attempts),
    run: Number(row.run),
    isWaiting: row.waiting === 1,
    isDoc: row.doc === 1,
    etag: textOf(row.etag),
    modified: textOf(row.modified),
    hash: textOf(row.hash),
    canonical: textOf(row.canonical),
    links: links === undefined || links === "" ? [] : links.split("\n"),
  };
}
