import { AppError, isAppError } from "@turnpike/base";

/**
 * Why an engine gave no answer: a small fixed set, for logs and metrics. `unauthorized` (401), `forbidden` (403) and
 * `quota` (402, 432, 433) are about the key; `rate_limited` is 429; `refused_query` is 400, 414 and 422.
 */
const ENGINE_FAILURES = [
  "unauthorized",
  "forbidden",
  "quota",
  "rate_limited",
  "refused_query",
  "redirected",
  "http_status",
  "too_large",
  "bad_answer",
  "connection",
  "timed_out",
  "failed",
] as const;

/** One of {@link ENGINE_FAILURES}. */
export type EngineFailure = (typeof ENGINE_FAILURES)[number];

/** The error of an engine. It names the reason and nothing of request or answer: those hold keys and what was searched. */
export function engineFailed(reason: EngineFailure, status?: number): AppError {
  return new AppError("SEARCH_ENGINE_FAILED", { detail: status === undefined ? { reason } : { reason, status } });
}

/** The reason that an engine's error states; `failed` where it states none. */
export function failureReason(error: unknown): EngineFailure {
  if (!isAppError(error)) return "failed";
  const { reason } = error.detail;
  return ENGINE_FAILURES.find((known) => known === reason) ?? "failed";
}

/** The reason of an HTTP status; undefined for 200. */
export function statusFailure(status: number): EngineFailure | undefined {
  if (status === 200) return undefined;
  if (status === 401) return "unauthorized";
  if (status === 403) return "forbidden";
  // 432 and 433 are Tavily's own, for limits of a plan.
  if (status === 402 || status === 432 || status === 433) return "quota";
  if (status === 429) return "rate_limited";
  if (status === 400 || status === 414 || status === 422) return "refused_query";
  return status >= 300 && status < 400 ? "redirected" : "http_status";
}
