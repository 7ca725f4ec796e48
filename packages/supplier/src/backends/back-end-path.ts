import { trimEndOf } from "@turnpike/base";

const DOT_SEGMENT = /(^|\/)(\.|%2e){1,2}(\/|$)/i;

/**
 * Path and query at a back-end for the URL of a relayed request: the host is the back-end's, and its path comes before
 * the request's. Undefined for a URL that is none, or that would leave the back-end's path.
 */
export function backEndPath(base: URL, url: string): string | undefined {
  const at = url.indexOf("://");
  const slash = at === -1 ? (url.startsWith("/") ? 0 : -1) : url.indexOf("/", at + 3);
  const query = at === -1 ? -1 : url.indexOf("?", at + 3);
  if (at === -1 && slash === -1 && url !== "" && !url.startsWith("?")) return undefined;
  const rest =
    slash !== -1 && (query === -1 || slash < query) ? url.slice(slash) : query === -1 ? "" : url.slice(query);
  const own = rest === "" && url.startsWith("?") ? url : rest;
  const [path = "", ...queries] = (own.split("#")[0] ?? "").split("?");
  if (DOT_SEGMENT.test(path) || /[\s\\]|[^\x21-\x7e]/.test(own) || /%2f|%5c/i.test(path)) return undefined;
  const baseQuery = base.search.slice(1);
  const search = [baseQuery, queries.join("?")].filter((part) => part !== "").join("&");
  const joined = `${trimEndOf(base.pathname, "/")}${path === "/" ? "" : path}`;
  return `${joined === "" ? "/" : joined}${search === "" ? "" : `?${search}`}`;
}
