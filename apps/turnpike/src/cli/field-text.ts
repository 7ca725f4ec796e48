import { ERRORS, isRecord, visibleLine } from "@turnpike/base";

const MAX_FIELDS = 20;
const MAX_LENGTH = 300;
const shown = (text: string): string => visibleLine(text, MAX_LENGTH);

function fieldLine(fault: unknown): string | undefined {
  if (!isRecord(fault) || typeof fault.msg !== "string" || !Array.isArray(fault.loc)) return undefined;
  const parts = (fault.loc as unknown[]).filter((part) => typeof part === "string" || typeof part === "number");
  const [first, ...inner] = parts;
  const field = (first === "body" ? inner : parts).join(".");
  return `${shown(field === "" ? "the body" : field)}: ${shown(fault.msg)}`;
}

/**
 * The sentence of a 422, whose message is the JSON of its `detail`, with a line for each field; any other message as it is.
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
  return [ERRORS.VALIDATION_FAILED.message, ...lines, ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
}
