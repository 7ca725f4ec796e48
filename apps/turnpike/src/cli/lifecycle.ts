import { flushCompileCache } from "node:module";
import type { Log, Metrics } from "@turnpike/base";
import type { CommandContext } from "./context.ts";

/** Time after which a shutdown that hangs is cut off. */
const WATCHDOG_MS = 10_000;

/** Resolves with the name of the first SIGTERM or SIGINT. */
function firstSignal(): { readonly signal: Promise<NodeJS.Signals>; readonly stop: () => void } {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  process.on("SIGTERM", resolve);
  process.on("SIGINT", resolve);
  const stop = (): void => {
    process.off("SIGTERM", resolve);
    process.off("SIGINT", resolve);
  };
  return { signal: promise, stop };
}

/** A service that {@link serve} runs. */
export interface Running extends AsyncDisposable {
  readonly onHangUp?: () => void;
  /** Rejects when it cannot go on. */
  readonly failed?: Promise<never>;
  /** Counts what the process's last handler survives. */
  readonly metrics?: Metrics;
  /** Time that its calls under way have to end, now. Undefined: it has none. */
  readonly drainMs?: () => number;
}

/**
 * Runs a service until SIGTERM or SIGINT, then disposes of it: calls under way end first. A second signal ends the process
 * at once, and so does the watchdog. SIGHUP is for the service, where it has a use for it. What comes during the start is
 * done as soon as the service has started: any number of SIGHUPs is one then, and ends a service that has no use for it.
 */
export async function serve(
  context: CommandContext,
  modules: { readonly log: Log },
  start: () => Promise<Running>,
): Promise<void> {
  const { signal, stop } = firstSignal();
  let isHungUp = false;
  const remember = (): void => {
    isHungUp = true;
  };
  process.on("SIGHUP", remember);
  try {
    await using running = await start();
    const { onHangUp, failed, drainMs, metrics } = running;
    context.connectionFaults?.attach({ log: modules.log, metrics });
    await using stack = new AsyncDisposableStack();
    if (onHangUp !== undefined) {
      process.on("SIGHUP", onHangUp);
      stack.defer(() => void process.off("SIGHUP", onHangUp));
    }
    process.off("SIGHUP", remember);
    if (isHungUp) onHangUp?.();
    flushCompileCache();
    const end = isHungUp && onHangUp === undefined ? "SIGHUP" : signal;
    const cause = await (failed === undefined ? end : Promise.race([end, failed]));
    modules.log.info({ signal: cause }, "stopping");
    const kill = (): void => context.kill(1);
    process.once("SIGTERM", kill);
    process.once("SIGINT", kill);
    setTimeout(
      () => {
        modules.log.error({}, "the shutdown hangs; ending now");
        kill();
      },
      WATCHDOG_MS + (drainMs?.() ?? 0),
    ).unref();
    await running[Symbol.asyncDispose]();
    modules.log.info({}, "stopped");
  } finally {
    process.off("SIGHUP", remember);
    stop();
  }
}
