import { isAppError, type Log, type Metrics } from "@turnpike/base";
import { type Config, configChanges } from "@turnpike/config";
import type { ReloadResult } from "@turnpike/gateway";
import { configReloadsTotal } from "./metrics.ts";

export interface ReloaderModules {
  /** Reads the configuration again. @throws AppError CONFIG_INVALID. */
  readonly load: () => Config;
  /** Puts it into effect as a whole, or throws with nothing changed. */
  readonly apply: (config: Config) => Promise<void>;
  /** Puts the configuration in effect into effect again, or throws with nothing changed. False: it cannot be done now. */
  readonly refresh?: (config: Config) => Promise<boolean>;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Reads the configuration again and puts it into effect. One at a time; who asks meanwhile gets the next one. */
export type Reload = (cause: "signal" | "file" | "admin") => Promise<ReloadResult>;

function faultsOf(error: unknown): readonly string[] {
  if (!isAppError(error)) throw error;
  const { faults } = error.detail;
  if (Array.isArray(faults)) return faults.map(String);
  return error.message.split("\n");
}

/** What puts things into effect while a gateway runs, one at a time. */
export interface Reloader {
  readonly reload: Reload;
  /**
   * Puts the configuration in effect into effect again, without reading it: what else parts are made of has changed. False
   * when that failed, and all is as it was.
   */
  readonly refresh: () => Promise<boolean>;
}

/** Replaces a configuration while it is in use. Whatever is wrong with the new one, the old one stays. */
export function createReloader(start: Config, modules: ReloaderModules): Reloader {
  const { load, apply, log, metrics } = modules;
  let current = start;
  let running: Promise<unknown> = Promise.resolve();
  let waiting: Promise<ReloadResult> | undefined;

  const refuse = (cause: string, faults: readonly string[]): ReloadResult => {
    log.error({ cause, faults }, "the configuration was refused; the old one stays in effect");
    return { kind: "refused", faults };
  };

  const once = async (cause: string): Promise<ReloadResult> => {
    try {
      const next = load();
      const { changed, fixed } = configChanges(current, next);
      if (changed.length === 0) {
        log.info({ cause }, "the configuration has not changed");
        return { kind: "unchanged" };
      }
      if (fixed.length > 0) {
        return refuse(
          cause,
          fixed.map((path) => `${path}: a running gateway cannot change it; restart it, or take it back`),
        );
      }
      await apply(next);
      current = next;
      log.info({ cause, changed }, "the configuration is in effect");
      return { kind: "reloaded", changed };
    } catch (error) {
      return refuse(cause, faultsOf(error));
    }
  };

  const run = async (cause: string): Promise<ReloadResult> => {
    const result = await once(cause);
    metrics.count(configReloadsTotal, { outcome: result.kind });
    return result;
  };

  const refresh = async (): Promise<boolean> => {
    try {
      return (await modules.refresh?.(current)) ?? true;
    } catch (error) {
      if (isAppError(error, "SHUTTING_DOWN")) return false;
      log.error({ error: String(error) }, "the services of the chain could not be put into effect");
      return false;
    }
  };

  return {
    reload(cause) {
      if (waiting !== undefined) return waiting;
      const next = running.then(() => {
        waiting = undefined;
        return run(cause);
      });
      waiting = next;
      running = next.catch(() => {});
      return next;
    },
    refresh() {
      const next = running.then(refresh);
      running = next;
      return next;
    },
  };
}
