import { isAppError, type Log } from "@turnpike/base";
import { pause } from "./engine/waiters.ts";
import type { Ledger } from "./ledger-types.ts";

/** Passes between two deletions of what is past its retention. */
const PASSES_BETWEEN_DELETIONS = 60;

interface HousekeepingOptions {
  /** Time between two passes. */
  readonly everyMs: number;
}

/**
 * Work that a ledger needs by whatever settler: the claims of dead processes are released, at once and then on a timer, and
 * answers and unused claims past their retention are deleted. Every process does it; the ledger makes it harmless to do twice.
 */
export function startHousekeeping(
  opts: HousekeepingOptions,
  modules: { readonly ledger: Ledger; readonly log: Log },
): AsyncDisposable {
  const { ledger, log } = modules;
  const stopping = new AbortController();

  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      log.warn({ code: isAppError(error) ? error.code : "unknown" }, `${what} waits for the ledger`);
    }
  };

  const run = async (): Promise<void> => {
    for (let pass = 0; !stopping.signal.aborted; pass++) {
      await attempt("the release of orphans", () => ledger.releaseOrphans());
      if (pass % PASSES_BETWEEN_DELETIONS === 0) {
        await attempt("the deletion of old answers", () => ledger.expireAnswers());
        await attempt("the deletion of released claims", () => ledger.pruneReleased());
      }
      await pause(opts.everyMs, stopping.signal);
    }
  };
  const running = run();

  return {
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await running;
    },
  };
}
