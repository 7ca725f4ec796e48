/** What a page forbids. */
export interface RobotsTag {
  readonly noIndex: boolean;
  readonly noFollow: boolean;
}

/** Directives with a value of their own: what stands before their colon is no crawler's name. */
const VALUED: ReadonlySet<string> = new Set([
  "unavailable_after",
  "max-snippet",
  "max-image-preview",
  "max-video-preview",
]);
/** Most of a header line that is read. */
const MAX_LENGTH = 2_048;

/**
 * Reads the values of `X-Robots-Tag`, one a header line: `noindex`, `nofollow`, `none`, each for all or after a
 * crawler's name and a colon, and `unavailable_after`.
 */
export function readRobotsTags(values: readonly string[], product: string, nowMs: number): RobotsTag {
  let noIndex = false;
  let noFollow = false;
  for (const value of values.slice(0, 16)) {
    let isMeant = true;
    for (const part of value.slice(0, MAX_LENGTH).split(",")) {
      let directive = part.trim().toLowerCase();
      const colon = directive.indexOf(":");
      const name = colon < 0 ? "" : directive.slice(0, colon).trim();
      if (colon >= 0 && !VALUED.has(name)) {
        isMeant = name === "*" || name === product;
        directive = directive.slice(colon + 1).trim();
      }
      if (!isMeant) continue;
      if (directive === "noindex" || directive === "none") noIndex = true;
      if (directive === "nofollow" || directive === "none") noFollow = true;
      // A date may hold a comma; its day's name alone is no date, and then nothing is forbidden.
      if (name === "unavailable_after" && Date.parse(directive.slice(colon + 1)) < nowMs) noIndex = true;
    }
  }
  return { noIndex, noFollow };
}
