/** A user or password of a URL that cannot be decoded; the message names neither. */
export function passwordFaults(path: string, url: string | undefined): string[] {
  if (url === undefined || !URL.canParse(url)) return [];
  const { username, password } = new URL(url);
  try {
    decodeURIComponent(username);
    decodeURIComponent(password);
    return [];
  } catch {
    return [`${path}: its user or password has % escapes that are no UTF-8; write a % as %25`];
  }
}
