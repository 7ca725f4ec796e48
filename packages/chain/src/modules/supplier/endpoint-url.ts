/** The real chain has no bound; the session of every application carries each URL. */
const MAX_CHARACTERS = 2_048;
const SCHEME = /^(?:https?|wss?):/i;
const CONTROL = /\p{Cc}/u;
const USER_INFO = /^(?:[A-Za-z0-9\-._:~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})*$/;
// A host may hold escapes of bytes over ASCII, and no others.
const HOST = /^(?:[A-Za-z0-9\-_.~!$&'()*+,;=:[\]<>"\u0080-\u{10ffff}]|%[89A-Fa-f][0-9A-Fa-f]|%25)*$/u;
const BRACKETS = /^\[[^\]]*\](.*)$/su;
const OPTIONAL_PORT = /^(?::\d*)?$/;
const BAD_ESCAPE = /%(?![0-9A-Fa-f]{2})/;

function isHost(host: string): boolean {
  const behindBrackets = BRACKETS.exec(host)?.[1];
  if (host.startsWith("[") && behindBrackets === undefined) return false;
  const colon = host.lastIndexOf(":");
  const port = behindBrackets ?? (colon < 0 ? "" : host.slice(colon));
  return host !== "" && OPTIONAL_PORT.test(port) && HOST.test(host);
}

/**
 * True for a URL that a supplier's endpoint may have: http, https, ws or wss, with a host, and readable as Go's `net/url`
 * reads it (x/shared/types/service.go).
 */
export function isEndpointUrl(text: string): boolean {
  if (text.length > MAX_CHARACTERS) return false;
  // \u0080 to \u009f are control characters that Go lets pass.
  if (CONTROL.test(text.replace(/[\u0080-\u009f]/g, ""))) return false;
  const hash = text.indexOf("#");
  const fragment = hash < 0 ? "" : text.slice(hash + 1);
  const [scheme = ""] = SCHEME.exec(text) ?? [];
  if (scheme === "" || BAD_ESCAPE.test(fragment)) return false;
  const [beforeQuery = ""] = (hash < 0 ? text : text.slice(0, hash)).slice(scheme.length).split("?", 1);
  if (!beforeQuery.startsWith("//")) return false;
  const slash = beforeQuery.indexOf("/", 2);
  const authority = slash < 0 ? beforeQuery.slice(2) : beforeQuery.slice(2, slash);
  const path = slash < 0 ? "" : beforeQuery.slice(slash);
  const at = authority.lastIndexOf("@");
  if (at >= 0 && !USER_INFO.test(authority.slice(0, at))) return false;
  return isHost(authority.slice(at + 1)) && !BAD_ESCAPE.test(path);
}
