import { visibleLine } from "./foreign-text.ts";

const MAX_LENGTH = 300;
const KEY = /[0-9a-fA-F]{64}/;

/** True for a text that may be a private key, or a path of which one is a part. */
export function looksLikeKey(text: string): boolean {
  return KEY.test(text);
}

/**
 * An argument, a path or a URL as a message may repeat it: on one line, without what may be a private key, and without the
 * user name and password of a URL. People put a key where its file belongs, and messages end up in logs.
 */
export function redacted(text: string): string {
  const withoutKeys = text.replace(/(?:0x)?[0-9a-fA-F]{64,}/g, "(key)");
  return visibleLine(withoutKeys.replace(/\/\/[^/?#]*@/g, "//(password)@"), MAX_LENGTH);
}
