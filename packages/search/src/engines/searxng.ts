import type { SearchEngine } from "../types.ts";
import { hostedQuery, MAX_SNIPPET_CHARS, MAX_TITLE_CHARS, withoutTags } from "./clean.ts";
import { createEngineHttp } from "./engine-http.ts";
import { hitsOf, listOf } from "./hits.ts";

interface SearxngOptions {
  readonly id: string;
  /** Address of the instance. Its `search.formats` must have `json`. */
  readonly url: string;
}

/** Long queries make long request lines, which servers before an instance refuse. */
const MAX_QUERY_CHARS = 1_000;
/**
 * Words that are commands to SearXNG (its manual, "Search syntax"): `!engine`, `!!bang` (which answers with a redirect),
 * `:language`, `<timeout`, `?`.
 */
const COMMAND = /^(?:[!?]+|:(?=\S)|<(?=\d))/;

/** A query without SearXNG's commands: clients search, they do not steer. */
export function searxngQuery(query: string): string {
  const words = hostedQuery(query, MAX_QUERY_CHARS).split(" ");
  const plain = words.map((word) => {
    let text = word;
    for (let before = ""; before !== text; ) {
      before = text;
      text = text.replace(COMMAND, "");
    }
    return text;
  });
  return plain.filter((word) => word !== "").join(" ");
}

/** Asks a SearXNG instance: `GET /search?format=json` (docs.searxng.org, "Search API"). */
export function createSearxngEngine(opts: SearxngOptions): SearchEngine {
  const http = createEngineHttp({ baseUrl: opts.url, headers: {} });
  return {
    id: opts.id,
    async search({ query, maxResults }, signal) {
      const q = searxngQuery(query);
      if (q === "") return [];
      const asked = new URLSearchParams({ q, format: "json", pageno: "1" });
      const answer = await http.ask({ verb: "GET", path: `/search?${asked.toString()}` }, signal);
      return hitsOf(listOf(answer, "results"), maxResults, ({ title, url, content, publishedDate }) => ({
        title: withoutTags(title, MAX_TITLE_CHARS),
        url,
        snippet: withoutTags(content, MAX_SNIPPET_CHARS),
        date: publishedDate,
      }));
    },
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}
