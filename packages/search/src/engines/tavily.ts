import type { SearchEngine } from "../types.ts";
import { hostedQuery, MAX_SNIPPET_CHARS, MAX_TITLE_CHARS, withoutTags } from "./clean.ts";
import { createEngineHttp } from "./engine-http.ts";
import { hitsOf, listOf } from "./hits.ts";
import type { HostedEngineOptions } from "./hosted.ts";

const URL_BASE = "https://api.tavily.com";
/** The API refuses longer queries. */
const MAX_QUERY_CHARS = 400;
const MAX_COUNT = 20;

/** Asks Tavily: `POST /search` (its reference, "Tavily Search"), at most 20 results, the basic depth. */
export function createTavilyEngine(opts: HostedEngineOptions): SearchEngine {
  const http = createEngineHttp({
    baseUrl: opts.url ?? URL_BASE,
    headers: { authorization: `Bearer ${opts.apiKey}` },
  });
  return {
    id: opts.id,
    async search({ query, maxResults }, signal) {
      const text = hostedQuery(query, MAX_QUERY_CHARS);
      if (text === "") return [];
      const body = {
        query: text,
        max_results: Math.min(maxResults, MAX_COUNT),
        search_depth: "basic",
        include_answer: false,
        include_raw_content: false,
        include_images: false,
      };
      const answer = await http.ask({ verb: "POST", path: "/search", body }, signal);
      return hitsOf(listOf(answer, "results"), maxResults, ({ title, url, content, published_date }) => ({
        title: withoutTags(title, MAX_TITLE_CHARS),
        url,
        snippet: withoutTags(content, MAX_SNIPPET_CHARS),
        date: published_date,
      }));
    },
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}
