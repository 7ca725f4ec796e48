/** The whole path and query of what is appended to a back-end's URL, whose query it keeps. */
export function pathBelow({ pathname, search }: URL, appended: string): string {
  // A query may hold question marks.
  const at = appended.indexOf("?");
  const [path, query] = at === -1 ? [appended, ""] : [appended.slice(0, at), appended.slice(at + 1)];
  const base = pathname.endsWith("/") ? pathname.slice(0, -1) : pathname;
  const full = path === "" ? pathname : `${base}${path}`;
  const queries = [search.slice(1), query].filter((part) => part !== "");
  return queries.length === 0 ? full : `${full}?${queries.join("&")}`;
}

/** As `decodeURIComponent`, and the text as it is where its escapes are no UTF-8: suppliers choose URLs, too. */
export function decodedText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The `authorization` header of the user and password in a URL; empty without a user. */
export function basicAuth({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === "") return {};
  const pair = `${decodedText(username)}:${decodedText(password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
}
