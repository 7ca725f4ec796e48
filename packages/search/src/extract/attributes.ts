import { MAX_URL_CHARS } from "./limits.ts";
import { SKIPPED, VOID } from "./tags.ts";

/** A link as an absolute http or https URL without fragment, user or password; undefined when it is none. */
export function resolveLink(href: string, base: string): string | undefined {
  if (href.length > MAX_URL_CHARS) return undefined;
  const url = URL.parse(href.trim(), base);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) return undefined;
  url.hash = "";
  url.username = "";
  url.password = "";
  return url.href.length > MAX_URL_CHARS ? undefined : url.href;
}

/** Words of an attribute such as `rel`, in lower case. */
export function words(value: string | undefined): readonly string[] {
  return value === undefined ? [] : value.toLowerCase().split(/\s+/);
}

/** True for elements whose text is not shown. */
export function isSkipped(name: string, attributes: ReadonlyMap<string, string>): boolean {
  if (VOID.has(name)) return false;
  if (SKIPPED.has(name)) return true;
  if (name === "html" || name === "body") return false;
  if (attributes.has("hidden") || attributes.get("aria-hidden") === "true") return true;
  const style = attributes.get("style");
  return (
    style !== undefined &&
    /(?:^|;)\s{0,16}(?:display\s{0,16}:\s{0,16}none|visibility\s{0,16}:\s{0,16}hidden)/i.test(style)
  );
}
