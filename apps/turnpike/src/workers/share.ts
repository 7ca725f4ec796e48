import { availableParallelism } from "node:os";
import type { Config } from "@turnpike/config";

/** Most workers, whatever the machine has. */
const MAX_WORKERS = 64;
const MIB = 1_048_576;

/** How many processes serve. */
export function workersOf({ gateway: { workers } }: Config): number {
  return workers === 0 ? Math.min(MAX_WORKERS, availableParallelism()) : workers;
}

/**
 * The configuration of one of several workers. What bounds memory, connections and calls at suppliers is for all of them
 * together, so each gets its share, but no less than it can work with. Bounds of one client stay: where its connections
 * come to is chance.
 */
export function shareOf(config: Config, workers: number, gatewayPort: number): Config {
  const { gateway, relay, ledger } = config;
  const part = (whole: number, least: number): number => Math.max(Math.min(whole, least), Math.ceil(whole / workers));
  const answerBytes = Math.max(16 * MIB, 2 * gateway.maxAnswerBytes);
  const webSockets = {
    ...gateway.webSockets,
    max: part(gateway.webSockets.max, 1),
    maxTotalQueuedBytes: part(gateway.webSockets.maxTotalQueuedBytes, 2 * gateway.webSockets.maxQueuedBytes),
  };
  return {
    ...config,
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
