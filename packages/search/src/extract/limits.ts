/** Bounds of what is taken out of one page. */
export interface PageLimits {
  /** Longest main text, in UTF-16 units; what follows is cut off. */
  readonly maxTextChars: number;
  /** Most links of one page; further ones are left out. */
  readonly maxLinks: number;
}

/** Longest title, in UTF-16 units. */
export const MAX_TITLE_CHARS = 300;

/** Longest URL that is taken from a page. */
export const MAX_URL_CHARS = 2_048;
