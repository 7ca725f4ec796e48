import { type Clock, Deadlines, type ErrorCode, isAppError } from "@turnpike/base";
import type { AttemptResult, FailedAttempt } from "../upstream-answer.ts";

/** What has become of one call's attempts. */
export interface Tally {
  attempts: number;
  readonly failures: FailedAttempt[];
}

/** The code of a call that got no good answer. `signal` is that which may have ended it. */
export function failureCode(tally: Tally, isLate: boolean, signal: AbortSignal | undefined): ErrorCode {
  const { failures } = tally;
  const has = (reason: FailedAttempt["reason"]): boolean => failures.some((failure) => failure.reason === reason);
  if (signal?.aborted === true && !isLate) return isAppError(signal.reason) ? signal.reason.code : "SHUTTING_DOWN";
  if (has("overloaded")) return "OVERLOADED";
  if (has("too_large")) return "ANSWER_TOO_LARGE";
  if (isLate) return "DEADLINE_EXCEEDED";
  if (failures.length === 0) return "NO_SUPPLIERS";
  if (failures.every((failure) => failure.reason === "timeout")) return "DEADLINE_EXCEEDED";
  return failures.every((failure) => failure.blame === "wire") ? "SUPPLIERS_UNREACHABLE" : "SUPPLIERS_FAILED";
}

/** Label of an attempt's outcome. */
export function outcomeOf(result: AttemptResult): "good" | "error" | "bad" {
  if (!result.ok) return "bad";
  return result.isError ? "error" : "good";
}

/** A third of the time that {@link within} may be late. */
const STEP_MS = 10;

/** True when the task ends within the time of the clock; false when the time is over first. */
export async function within(task: Promise<void>, timeoutMs: number, clock: Clock): Promise<boolean> {
  const deadlines = new Deadlines({ stepMs: STEP_MS }, { clock });
  const { promise, resolve } = Promise.withResolvers<false>();
  const deadline = deadlines.after(timeoutMs, () => resolve(false));
  try {
    return await Promise.race([task.then(() => true), promise]);
  } finally {
    deadlines.cancel(deadline);
  }
}
