import { availableParallelism } from "node:os";
import type { Config } from "@turnpike/config";
import type { UnpaidRule } from "@turnpike/payment";

/** Most workers, whatever the machine has. */
const MAX_WORKERS = 64;
const MIB = 1_048_576;

/** How many processes serve. */
export function workersOf({ gateway: { workers } }: Config): number {
  return workers === 0 ? Math.min(MAX_WORKERS, availableParallelism()) : workers;
}

/**
 * The configuration of one of several workers. What bounds memory, connections and calls at suppliers is for all of them
 * together, so each gets its share, but no less than it can work with. Bounds of one client stay, as where its
 * connections come to is chance, but for those of payments that do not pay.
 */
export function shareOf(config: Config, workers: number, gatewayPort: number): Config {
  const { gateway, relay, ledger, limits } = config;
  const part = (whole: number, least: number): number => Math.max(Math.min(whole, least), Math.ceil(whole / workers));
  const answerBytes = Math.max(16 * MIB, 2 * gateway.maxAnswerBytes);
  const webSockets = {
    ...gateway.webSockets,
    max: part(gateway.webSockets.max, 1),
    maxTotalQueuedBytes: part(gateway.webSockets.maxTotalQueuedBytes, 2 * gateway.webSockets.maxQueuedBytes),
  };
  // No more than its share, or one client could hold all places of one worker.
  const tokens = ({ burst, perSecond }: UnpaidRule): UnpaidRule => ({
    burst: part(burst, 1),
    perSecond: perSecond / workers,
  });
  const unpaid = { perClient: tokens(limits.unpaid.perClient), perPayer: tokens(limits.unpaid.perPayer) };
  return {
    ...config,
    limits: { ...limits, unpaid },
    gateway: {
      ...gateway,
      port: gatewayPort,
      maxBufferedBytes: part(gateway.maxBufferedBytes, 16 * MIB),
      maxConcurrentRequests: part(gateway.maxConcurrentRequests, 1),
      maxConnections: Math.max(part(gateway.maxConnections, 10), webSockets.max + 1),
      webSockets,
    },
    relay: {
      ...relay,
      maxInFlight: part(relay.maxInFlight, 1),
      maxInFlightBytes: part(relay.maxInFlightBytes, answerBytes),
      maxCacheBytes: part(relay.maxCacheBytes, 0),
    },
    ledger: { ...ledger, poolSize: part(ledger.poolSize, 4) },
  };
}
