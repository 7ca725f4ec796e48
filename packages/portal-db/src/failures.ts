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
