import { isRecord } from "@turnpike/base";
import type { SearchEngine } from "../types.ts";
import { hostedQuery, htmlText, MAX_SNIPPET_CHARS, MAX_TITLE_CHARS } from "./clean.ts";
import { createEngineHttp } from "./engine-http.ts";
import { hitsOf, listOf } from "./hits.ts";
import type { HostedEngineOptions } from "./hosted.ts";

const URL_BASE = "https://api.search.brave.com/res/v1";
/** The API refuses longer queries, and more words. */
const MAX_QUERY_CHARS = 400;
const MAX_QUERY_WORDS = 50;
/** Most results of one request. */
const MAX_COUNT = 20;

/** Asks the Brave Search API: `GET /web/search` (its reference, "Web Search API"). At most 20 results: each page costs. */
export function createBraveEngine(opts: HostedEngineOptions): SearchEngine {
  const http = createEngineHttp({
    baseUrl: opts.url ?? URL_BASE,
    headers: { "x-subscription-token": opts.apiKey },
  });
  return {
    id: opts.id,
    async search({ query, maxResults }, signal) {
      const q = hostedQuery(query, MAX_QUERY_CHARS, MAX_QUERY_WORDS);
      if (q === "") return [];
      const count = String(Math.min(maxResults, MAX_COUNT));
      const asked = new URLSearchParams({ q, count, result_filter: "web", text_decorations: "false" });
      const answer = await http.ask({ verb: "GET", path: `/web/search?${asked.toString()}` }, signal);
      // Without any result there is no `web`.
      if (isRecord(answer) && answer.type === "search" && answer.web === undefined) return [];
      return hitsOf(listOf(answer, "web", "results"), maxResults, ({ title, url, description, page_age }) => ({
        title: htmlText(title, MAX_TITLE_CHARS),
        url,
        snippet: htmlText(description, MAX_SNIPPET_CHARS),
        date: page_age,
      }));
    },
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}
