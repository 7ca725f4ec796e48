import type { Log } from "@turnpike/base";
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
  /** Time that its calls under way have to end, now. Undefined: it has none. */
  readonly drainMs?: () => number;
}

/**
 * Runs a service until SIGTERM or SIGINT, then disposes of it: calls under way end first. A second signal ends the process
 * at once, and so does the watchdog. SIGHUP is for the service, where it has a use for it. A signal during the start ends
 * the service as soon as it has started.
 */
export async function serve(
  context: CommandContext,
  modules: { readonly log: Log },
  start: () => Promise<Running>,
): Promise<void> {
  const { signal, stop } = firstSignal();
  try {
    await using running = await start();
    const { onHangUp, failed, drainMs } = running;
    await using stack = new AsyncDisposableStack();
    if (onHangUp !== undefined) {
      process.on("SIGHUP", onHangUp);
      stack.defer(() => void process.off("SIGHUP", onHangUp));
    }
    const cause = await (failed === undefined ? signal : Promise.race([signal, failed]));
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
    stop();
  }
}
