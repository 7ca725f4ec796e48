import { visibleLine } from "./foreign-text.ts";

const MAX_LENGTH = 300;
const KEY = /[0-9a-fA-F]{64}/;

/** True for a text that may be a private key, or a path of which one is a part. */
export function looksLikeKey(text: string): boolean {
  return KEY.test(text);
}

/** Up to the last @ of a URL. A password may hold any character, and what makes a URL invalid is likely in one. */
const URL_USER = /^(\s*[a-z][a-z0-9+.-]*:)?[/\\]{2}.*@/is;
/** The same, of a text without a scheme, or with too few slashes. The @ of a path is behind no colon. */
const BARE_USER = /^[^:]*:.*@/s;

/**
 * An argument, a path or a URL as a message may repeat it: on one line, without what may be a private key, and without the
 * user name and password of a URL. People put a key where its file belongs, and messages end up in logs.
 */
export function redacted(text: string): string {
  const withoutKeys = text.replace(/(?:0x)?[0-9a-fA-F]{64,}/g, "(key)");
  const withoutUser = URL_USER.test(withoutKeys)
    ? withoutKeys.replace(URL_USER, "$1//(password)@")
    : withoutKeys.replace(BARE_USER, "(password)@");
  return visibleLine(withoutUser, MAX_LENGTH);
}
