import type { SearchEngine } from "../types.ts";
import { hostedQuery, MAX_SNIPPET_CHARS, MAX_TITLE_CHARS, withoutTags } from "./clean.ts";
import { createEngineHttp } from "./engine-http.ts";
import { hitsOf, listOf } from "./hits.ts";
import type { HostedEngineOptions } from "./hosted.ts";

const URL_BASE = "https://api.exa.ai";
const MAX_QUERY_CHARS = 2_000;

/** What fits the query best of what came: highlights, else a summary, else the beginning of the text. */
function snippetOf({ highlights, summary, text }: Readonly<Record<string, unknown>>): unknown {
  const passages = Array.isArray(highlights)
    ? highlights.slice(0, 8).filter((one): one is string => typeof one === "string" && one.trim() !== "")
    : [];
  if (passages.length > 0) return passages.map((one) => one.slice(0, MAX_SNIPPET_CHARS)).join(" … ");
  return typeof summary === "string" && summary.trim() !== "" ? summary : text;
}

/** Asks Exa: `POST /search` with highlights (its reference, "Search"). */
export function createExaEngine(opts: HostedEngineOptions): SearchEngine {
  const http = createEngineHttp({ baseUrl: opts.url ?? URL_BASE, headers: { "x-api-key": opts.apiKey } });
  return {
    id: opts.id,
    async search({ query, maxResults }, signal) {
      const text = hostedQuery(query, MAX_QUERY_CHARS);
      if (text === "") return [];
      const body = { query: text, type: "auto", numResults: maxResults, contents: { highlights: true } };
      const answer = await http.ask({ verb: "POST", path: "/search", body }, signal);
      return hitsOf(listOf(answer, "results"), maxResults, (result) => ({
        title: withoutTags(result.title, MAX_TITLE_CHARS),
        url: result.url,
        snippet: withoutTags(snippetOf(result), MAX_SNIPPET_CHARS),
        date: result.publishedDate,
      }));
    },
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}
