import { cutText, ERRORS, isRecord, visibleText } from "@turnpike/base";

const MAX_FIELDS = 20;
const MAX_LENGTH = 300;

/** A gateway's text on one line as a JSON string. */
function quoted(text: string): string {
  return visibleText(JSON.stringify(cutText(text.replace(/\s+/g, " ").trim(), MAX_LENGTH)));
}

function fieldLine(fault: unknown): string | undefined {
  if (!isRecord(fault) || typeof fault.msg !== "string" || !Array.isArray(fault.loc)) return undefined;
  const parts = (fault.loc as unknown[]).filter((part) => typeof part === "string" || typeof part === "number");
  const [first, ...inner] = parts;
  const field = (first === "body" ? inner : parts).join(".");
  // Indented: only sentences and commands of our own begin a line.
  return `  ${field === "" ? "the body" : quoted(field)}: ${quoted(fault.msg)}`;
}

/**
 * The sentence of a 422, whose message is the JSON of its `detail`, with an indented line for each field; any other message as it is.
 */
export function readableMessage(code: string, message: string): string {
  if (code !== "VALIDATION_FAILED") return message;
  let detail: unknown;
  try {
    detail = JSON.parse(message);
  } catch {
    return message;
  }
  if (!Array.isArray(detail) || detail.length === 0) return message;
  const lines = (detail as unknown[]).slice(0, MAX_FIELDS).map(fieldLine);
  if (lines.includes(undefined)) return message;
  const more = detail.length - lines.length;
  return [ERRORS.VALIDATION_FAILED.message, ...lines, ...(more > 0 ? [`  and ${more} more`] : [])].join("\n");
}
