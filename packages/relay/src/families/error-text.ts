import type { Brand } from "@turnpike/base";

/**
 * Text of a back-end's error, as far as families judge it: only this type is matched against expressions. At most
 * 2,049 characters.
 */
export type ErrorText = Brand<string, "ErrorText">;

const END_CHARS = 1_024;
const MAX_CHARS = 2 * END_CHARS + 1;

/**
 * Reads the text of an error; undefined for a value that is not a string. Honest nodes repeat the client's request in
 * their errors, before or after what they say of it: of a longer text both ends are kept.
 */
export function errorText(value: unknown): ErrorText | undefined {
  if (typeof value !== "string") return undefined;
  if (value.length <= MAX_CHARS) return value as ErrorText;
  return `${value.slice(0, END_CHARS)}\n${value.slice(-END_CHARS)}` as ErrorText;
}
