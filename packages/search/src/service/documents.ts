import { trimEndOf } from "@turnpike/base";
import type { SourceDocument } from "../types.ts";

/** Finds an indexed document by its URL; undefined: there is none. */
export type FindDocument = (url: string) => Promise<SourceDocument | undefined>;

/** Path below which the indexed text of local files is served. */
export const DOCUMENTS_PATH = "/documents/";

const MAX_PATH_CHARS = 4_096;

/**
 * The URL that a request below {@link DOCUMENTS_PATH} names, as the index spells it: `publicUrl` and the path without a
 * query. Undefined when the path leaves that folder or is too long.
 */
export function documentUrl(publicUrl: string, target: string): string | undefined {
  const [path = ""] = target.split("?", 1);
  if (path.length > MAX_PATH_CHARS || !path.startsWith(DOCUMENTS_PATH)) return undefined;
  const root = trimEndOf(publicUrl, "/");
  const text = `${root}${path}`;
  if (!URL.canParse(text)) return undefined;
  const { href } = new URL(text);
  return href.startsWith(new URL(`${root}${DOCUMENTS_PATH}`).href) ? href : undefined;
}

/** Headers of a document: text of others, which a browser must take for nothing else. */
export const DOCUMENT_HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/plain; charset=utf-8",
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; sandbox",
  "cache-control": "no-cache",
};
