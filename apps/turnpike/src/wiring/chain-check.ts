import { setTimeout as delay } from "node:timers/promises";
import { FaultLogThrottle, isAppError, type Log, type NetworkId } from "@turnpike/base";
import type { EvmVerifier, Settler } from "@turnpike/payment";

/** Time for one look at a chain. */
const ATTEMPT_MS = 10_000;
const PAUSE_MS = 2_000;

/** Whether the settlement chains are the configured ones. */
export interface ChainCheck extends AsyncDisposable {
  /** The same settler, which takes no payment of a network before its chain was compared. */
  guard(settler: Settler): Settler;
}

/**
 * Compares the chains with the configuration, each by itself: a silent one stops only its own payments. A chain that is
 * another one refuses the start. One that does not answer is asked until it does.
 * @throws AppError CHAIN_MISMATCH
 */
export async function checkChains(
  networks: readonly NetworkId[],
  verifier: EvmVerifier,
  modules: { readonly log: Log },
): Promise<ChainCheck> {
  const { log } = modules;
  const stopping = new AbortController();
  const missing = new Map<NetworkId, string>(networks.map((id) => [id, `settlement chain (${id})`]));

  const faultLog = new FaultLogThrottle();
  /** True when there is nothing left to ask. */
  const attempt = async (network: NetworkId): Promise<boolean> => {
    try {
      await verifier.checkNetworks(AbortSignal.any([stopping.signal, AbortSignal.timeout(ATTEMPT_MS)]), network);
      missing.delete(network);
      return true;
    } catch (error) {
      if (isAppError(error, "CHAIN_MISMATCH")) throw error;
      if (faultLog.onFailure()) log.warn({ network, error: String(error) }, "a settlement chain does not answer");
      return false;
    }
  };

  const untilKnown = async (network: NetworkId): Promise<void> => {
    while (!stopping.signal.aborted) {
      await delay(PAUSE_MS, undefined, { signal: stopping.signal, ref: false }).catch(() => {});
      try {
        if (stopping.signal.aborted || (await attempt(network))) return;
      } catch (error) {
        missing.set(network, `settlement chain (${network} is not the configured one)`);
        log.error({ network, error: String(error) }, "payments of this network stay refused");
        return;
      }
    }
  };

  const known = await Promise.all(networks.map(attempt));
  const later = Promise.all(networks.filter((_, index) => known[index] !== true).map(untilKnown));
  const lacking = (wanted: NetworkId | undefined): string[] =>
    [...missing].flatMap(([id, what]) => (wanted === undefined || wanted === id ? [what] : []));
  return {
    guard: (settler) => ({
      networks: settler.networks,
      reserve: (payment, waitMs, signal) => settler.reserve(payment, waitMs, signal),
      settle: (payment, answer, signal) => settler.settle(payment, answer, signal),
      wait: (payment, signal) => settler.wait(payment, signal),
      refusal: (sale) => settler.refusal?.(sale),
      missing: (network) => [...lacking(network), ...settler.missing(network)],
      [Symbol.asyncDispose]: () => settler[Symbol.asyncDispose](),
    }),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await later;
    },
  };
}
