import type { ErrorBody } from "./errors.ts";

/** An error body from its parts; details and hint are null where there are none. */
export function failure(
  status: number,
  code: string,
  message: string,
  details: string | null = null,
  hint: string | null = null,
): ErrorBody {
  return { status, code, message, details, hint };
}

/** What is answered instead of rows that are too much text; a write is not done then. */
export const TOO_LARGE: ErrorBody = failure(
  400,
  "ANSWER_TOO_LARGE",
  "The answer would be too large",
  null,
  "Ask for fewer rows, columns or embedded resources",
);
