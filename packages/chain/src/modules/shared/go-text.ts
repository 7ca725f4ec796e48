const NAMED: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\x07": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
};
const PRINTED = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;

function quoted(character: string): string {
  const named = NAMED[character];
  if (named !== undefined) return named;
  if (PRINTED.test(character)) return character;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** A text in double quotes as Go's `%q` prints it: how the chain's errors show names and addresses. */
export function goQuote(text: string): string {
  return `"${Array.from(text, quoted).join("")}"`;
}

/** Name of a parameter's value in `MsgUpdateParam`, as Go's `%T` prints it: `asUint64` is `*types.MsgUpdateParam_AsUint64`. */
export function goTypeOfValue(kind: string | undefined): string {
  return kind === undefined ? "<nil>" : `*types.MsgUpdateParam_${kind.slice(0, 1).toUpperCase()}${kind.slice(1)}`;
}
