import { AppError } from "@turnpike/base";

/** How long {@link eventually} waits by default, in milliseconds: only something that never comes takes this long. */
export const PATIENCE_MS = 60_000;

const POLL_MS = 5;

/** The machine's own, also while a test has its timers mocked. */
const { setTimeout: machineTimeout } = globalThis;

/**
 * Waits until `look` gives something other than undefined or false, and resolves with it. For what can only be asked,
 * not listened to: prefer an event. `what` names what is waited for in the error.
 */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  patienceMs = PATIENCE_MS,
): Promise<Exclude<T, undefined | false>> {
  const endMs = performance.now() + patienceMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found as Exclude<T, undefined | false>;
    if (performance.now() > endMs) throw new AppError("INTERNAL", { message: `not within ${patienceMs} ms: ${what}` });
    await new Promise((resolve) => machineTimeout(resolve, POLL_MS));
  }
}
