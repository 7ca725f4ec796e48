import type { EngineHit, SearchEngine } from "../types.ts";
import { canonicalUrlKey } from "./canonical-url.ts";
import type { FindDocument } from "./documents.ts";

/** So many sections are asked for in the place of one page. */
const SECTIONS_OF_PAGE = 3;
const MAX_ASKED = 100;

/** An engine of which each page is given once, as its best section, though several of them are found. */
export function pagesOf(engine: SearchEngine): SearchEngine {
  return {
    id: engine.id,
    async search({ query, maxResults }, signal) {
      const asked = Math.max(maxResults, Math.min(MAX_ASKED, maxResults * SECTIONS_OF_PAGE));
      const pages = new Map<string, EngineHit>();
      for (const hit of await engine.search({ query, maxResults: asked }, signal)) {
        const key = canonicalUrlKey(hit.url);
        if (!pages.has(key)) pages.set(key, hit);
      }
      return [...pages.values()].slice(0, maxResults);
    },
    [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose](),
  };
}

/**
 * Whole pages out of their sections. A link's fragment is not sent, so every section is there under the page's address.
 * `furtherOf` gives the addresses of the sections after the first.
 */
export function joinedDocuments(find: FindDocument, furtherOf: (url: string) => readonly string[]): FindDocument {
  return async (url) => {
    const first = await find(url);
    if (first === undefined) return undefined;
    const texts = [first.text];
    for (const section of furtherOf(url)) {
      const found = await find(section);
      if (found !== undefined) texts.push(found.text);
    }
    return { ...first, text: texts.join("\n") };
  };
}
