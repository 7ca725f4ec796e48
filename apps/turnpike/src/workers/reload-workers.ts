import { isAppError, isRecord } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import type { LiveWorker } from "./live-worker.ts";

const RELOAD_TIMEOUT_MS = 60_000;

/** Hands a configuration to one worker. Gives what is wrong with it there; nothing when it is in effect. */
export async function reloadWorker({ calls }: Pick<LiveWorker, "calls">, config: Config): Promise<readonly string[]> {
  const result = await calls.call("reload", { config }, RELOAD_TIMEOUT_MS);
  return isRecord(result) && Array.isArray(result.faults) ? result.faults.map(String) : [];
}

/**
 * Hands a configuration to workers, and gives what is wrong with it, each fault once. A worker that does not say is a
 * fault too: it may go on with the old one. But who is gone meanwhile will start with the new one.
 */
export async function reloadWorkers<W extends Pick<LiveWorker, "calls">>(
  workers: readonly W[],
  config: Config,
  isLive: (worker: W) => boolean,
): Promise<readonly string[]> {
  const faults = await Promise.all(
    workers.map(async (worker) => {
      try {
        return await reloadWorker(worker, config);
      } catch (error) {
        return isLive(worker) ? [`a worker did not take it: ${isAppError(error) ? error.message : String(error)}`] : [];
      }
    }),
  );
  return [...new Set(faults.flat())];
}
