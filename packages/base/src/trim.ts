/** Blanks around a value of a header field (RFC 9110 §5.6.3). */
const OPTIONAL_WHITE_SPACE = " \t";

/**
 * The text without any of `characters` at its end. Linear in the text: an expression such as `/\/+$/` is tried at every
 * slash, and so takes time that grows with the square of their number.
 */
export function trimEndOf(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end--;
  return end === text.length ? text : text.slice(0, end);
}

/** A field's value without the spaces and tabs around it. */
export function trimFieldValue(text: string): string {
  const trimmed = trimEndOf(text, OPTIONAL_WHITE_SPACE);
  let start = 0;
  while (start < trimmed.length && OPTIONAL_WHITE_SPACE.includes(trimmed.charAt(start))) start++;
  return start === 0 ? trimmed : trimmed.slice(start);
}
