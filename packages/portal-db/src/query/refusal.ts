import type { ErrorBody } from "../errors.ts";

/**
 * Why a request has no plan. Thrown and caught between `planRequest` and the functions below it, never beyond: the
 * parser and the planner are deep recursions, and their callers get a value.
 */
export class Refusal extends Error {
  readonly body: ErrorBody;

  constructor(body: ErrorBody) {
    super(body.message);
    this.name = "Refusal";
    this.body = body;
  }
}

/** Makes a {@link Refusal}. */
export function refusal(
  status: number,
  code: string,
  message: string,
  more: { readonly details?: ErrorBody["details"]; readonly hint?: string | undefined } = {},
): Refusal {
  return new Refusal({ code, message, details: more.details ?? null, hint: more.hint ?? null, status });
}

/** A query string that goes beyond a bound (PGRST100). */
export function tooMuch(what: string, most: number): Refusal {
  return refusal(400, "PGRST100", `Too many ${what}`, { details: `At most ${most} ${what} are read.` });
}
