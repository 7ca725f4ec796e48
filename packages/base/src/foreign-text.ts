/** Marks on one letter that are shown as they are. Longer runs draw over other lines, or hide text. */
const MAX_MARKS = 4;

/**
 * Characters without a shape of their own, by Unicode category and property: controls, formats (direction, joiners, tags),
 * surrogates, private and unassigned code points, separators but the plain space, and all that a renderer may ignore (variation
 * selectors, fillers). Outside of these are four empty symbols: braille's, music's null notehead and two Egyptian blanks. Line ends
 * and tabs stay.
 */
const UNSEEN = /(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{13441}\u{13442}]/u;
const MARK = /\p{M}/u;
const UNSEEN_OR_MARKS =
  /(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{13441}\u{13442}]|\p{M}{5,}/gu;
/** The same, and what JSON has escaped already, in a JSON text. */
const ESCAPE_OR_UNSEEN =
  /\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{13441}\u{13442}]|\p{M}{5,}/gu;

/** A character as JSON writes it. */
function escapeOf(character: string): string {
  let text = "";
  for (let at = 0; at < character.length; at++) {
    text += `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`;
  }
  return text;
}

/** Escapes an unseen character, or of a run of marks those that are too many. */
function escaped(run: string): string {
  let marks = 0;
  let text = "";
  for (const character of run) {
    if (!UNSEEN.test(character) && ++marks <= MAX_MARKS) text += character;
    else text += escapeOf(character);
  }
  return text;
}

/** Cuts a text without splitting a character of two units. */
export function cutText(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const last = text.charCodeAt(maxCharacters - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? maxCharacters - 1 : maxCharacters);
}

/**
 * Foreign text as a person or a model may see it: each character that has no shape is a `\u` escape, so that none hides text,
 * reverses it, or moves a terminal's cursor. A JSON text stays JSON of the same value.
 */
export function visibleText(text: string): string {
  return text.replace(UNSEEN_OR_MARKS, escaped);
}

/** One line of foreign text, with at most `maxCharacters` and an ellipsis. */
export function visibleLine(text: string, maxCharacters: number): string {
  // An escape is longer than its character: what is read is bounded first.
  const head = text.slice(0, 4 * maxCharacters);
  const line = visibleText(head.replace(/\s+/g, " ").trim());
  return line.length <= maxCharacters && head.length === text.length ? line : `${cutText(line, maxCharacters)}…`;
}

/**
 * The value of a JSON text, with escapes in its strings and keys in place of what is not seen: a reader that shows the parsed
 * value shows them, too. Line ends and tabs stay.
 */
export function visibleValue(json: string): unknown {
  const text = json.replace(ESCAPE_OR_UNSEEN, (part) => {
    if (!part.startsWith("\\")) return escaped(part).replaceAll("\\", "\\\\");
    if (!part.startsWith("\\u")) return part === "\\b" || part === "\\f" || part === "\\r" ? `\\${part}` : part;
    // A mark that a text has escaped is one of a run that is too long.
    const character = String.fromCharCode(Number.parseInt(part.slice(2), 16));
    return UNSEEN.test(character) || MARK.test(character) ? `\\${part}` : part;
  });
  return JSON.parse(text) as unknown;
}
