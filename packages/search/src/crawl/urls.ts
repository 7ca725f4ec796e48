import { checkTarget } from "../fetching/targets.ts";

/** Most segments of a path that is followed. */
const MAX_SEGMENTS = 32;
/** How often one segment may come in a path: mazes of relative links repeat theirs. */
const MAX_REPEATS = 3;
/** Files that are never text. They are not even asked for. */
const NOT_TEXT =
  /\.(?:png|jpe?g|gif|webp|avif|svgz?|ico|bmp|tiff?|css|m?js|map|json|woff2?|ttf|otf|eot|mp[34]|m4[av]|webm|og[agv]|wav|flac|avi|mov|mkv|zip|gz|tgz|bz2|xz|zst|7z|rar|tar|jar|war|whl|deb|rpm|dmg|iso|exe|msi|apk|bin|wasm|so|dll|psd|docx?|xlsx?|pptx?|od[tsp]|epub|mobi)$/i;

/** Reads a link: absolute, http or https, without fragment and credentials. Undefined for what is never asked. */
export function normalUrl(text: string, base?: string): URL | undefined {
  // Addresses are judged where they are asked, with the fetcher's own rule.
  const target = checkTarget(text, base, true);
  if (!target.ok) return undefined;
  const { url } = target;
  // `?` alone is the same page.
  if (url.search === "") url.search = "";
  return url;
}

/** Why a page's URL is not followed; undefined when it is. */
export function trapOf(url: URL): "too_deep" | "repeats" | "not_text" | undefined {
  const segments = url.pathname.split("/").filter((segment) => segment !== "");
  if (segments.length > MAX_SEGMENTS) return "too_deep";
  const seen = new Map<string, number>();
  for (const segment of segments) {
    const times = (seen.get(segment) ?? 0) + 1;
    if (times > MAX_REPEATS) return "repeats";
    seen.set(segment, times);
  }
  return NOT_TEXT.test(url.pathname) ? "not_text" : undefined;
}

/** The hosts whose pages are taken. A host without a port stands for both default ports. */
export class Scope {
  readonly #hosts: Set<string>;

  constructor(start: URL, domains: readonly string[]) {
    this.#hosts = new Set([start.host]);
    for (const domain of domains) {
      const host = URL.parse(`http://${domain}`)?.host;
      if (host !== undefined && host !== "") this.#hosts.add(host);
    }
  }

  /** True when this URL's page may be taken. */
  has(url: URL): boolean {
    return this.#hosts.has(url.host);
  }

  /** The start leads to its own host with or without `www.`: that one is meant too. True when it was new. */
  admitTwin(from: URL, to: URL): boolean {
    const bare = (url: URL): string => url.host.replace(/^www\./, "");
    if (!this.has(from) || this.has(to) || bare(from) !== bare(to)) return false;
    this.#hosts.add(to.host);
    return true;
  }
}
