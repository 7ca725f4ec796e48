import { setTimeout as delay } from "node:timers/promises";
import { isAppError, type Log } from "@turnpike/base";
import type { EvmVerifier, Settler } from "@turnpike/payment";

/** Time for one look at all chains. */
const ATTEMPT_MS = 10_000;
const PAUSE_MS = 2_000;

/** Whether the settlement chains are the configured ones. */
export interface ChainCheck extends AsyncDisposable {
  /** The same settler, which takes no payment before the chains were compared. */
  guard(settler: Settler): Settler;
}

/**
 * Compares the chains with the configuration. A chain that is another one refuses the start. One that does not answer
 * does not: it is asked until it does, and no payment is taken meanwhile.
 * @throws AppError CHAIN_MISMATCH
 */
export async function checkChains(verifier: EvmVerifier, modules: { readonly log: Log }): Promise<ChainCheck> {
  const { log } = modules;
  const stopping = new AbortController();
  let missing: readonly string[] = ["settlement chain"];

  /** True when there is nothing left to ask. */
  const attempt = async (): Promise<boolean> => {
    try {
      await verifier.checkNetworks(AbortSignal.any([stopping.signal, AbortSignal.timeout(ATTEMPT_MS)]));
      missing = [];
      return true;
    } catch (error) {
      if (isAppError(error, "CHAIN_MISMATCH")) throw error;
      log.warn({ error: error instanceof Error ? error.message : String(error) }, "a settlement chain does not answer");
      return false;
    }
  };

  const untilKnown = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await delay(PAUSE_MS, undefined, { signal: stopping.signal, ref: false }).catch(() => {});
      try {
        if (stopping.signal.aborted || (await attempt())) return;
      } catch (error) {
        missing = ["settlement chain (it is not the configured one)"];
        log.error({ error: error instanceof Error ? error.message : String(error) }, "payments stay refused");
        return;
      }
    }
  };

  const known = await attempt();
  const later = known ? Promise.resolve() : untilKnown();
  return {
    guard: (settler) => ({
      networks: settler.networks,
      settle: (payment, answer, signal) => settler.settle(payment, answer, signal),
      wait: (payment, signal) => settler.wait(payment, signal),
      missing: () => [...missing, ...settler.missing()],
      [Symbol.asyncDispose]: () => settler[Symbol.asyncDispose](),
    }),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await later;
    },
  };
}
