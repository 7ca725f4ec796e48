import { trimEndOf } from "@turnpike/base";

/** Parameters that say where a visitor came from, not what the page is. */
const TRACKING =
  /^(?:utm_\w+|mtm_\w+|pk_\w+|hsa_\w+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|li_fat_id|igshid|igsh|mc_cid|mc_eid|_ga|_gl|_hsenc|_hsmi|vero_id|oly_anon_id|oly_enc_id|wickedid|s_cid|srsltid)$/i;
const INDEX_PAGE = /\/(?:index|default)\.(?:html?|xhtml|php|aspx?|jsp)$/i;

/** Percent-encoding of what needs none (RFC 3986 §6.2.2.2) is taken away, the rest is in upper case. */
function plainPath(path: string): string {
  return path.replaceAll(/%[0-9a-f]{2}/gi, (code) => {
    const char = String.fromCharCode(Number.parseInt(code.slice(1), 16));
    return /[A-Za-z0-9._~-]/.test(char) ? char : code.toUpperCase();
  });
}

/**
 * The key by which two URLs count as one page: without scheme, `www.`, fragment, trailing slash, default index page and
 * tracking parameters; other parameters in order of their names. Text that is no URL is its own key.
 */
export function canonicalUrlKey(text: string): string {
  if (!URL.canParse(text)) return text;
  const { hostname, port, pathname, searchParams } = new URL(text);
  const host = hostname.replace(/\.$/, "").replace(/^www\./, "");
  const path = trimEndOf(plainPath(pathname).replace(INDEX_PAGE, "/"), "/");
  const kept = [...searchParams].filter(([name]) => !TRACKING.test(name));
  // Values of one name stay in their order.
  kept.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const query = kept.length === 0 ? "" : `?${new URLSearchParams(kept).toString()}`;
  return `${host}${port === "" ? "" : `:${port}`}${path}${query}`;
}
