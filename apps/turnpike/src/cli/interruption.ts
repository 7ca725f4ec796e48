import { constants } from "node:os";

/** Signals that end a command which waits. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

type Interrupting = (typeof SIGNALS)[number];

/** A command that a signal can interrupt, until it is disposed of. */
export interface Interruption extends Disposable {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal;
  /** Exit code of a command that the first signal ended, as shells have it; undefined while none came. */
  exitCode(): number | undefined;
}

/** Exit code of a command that a signal ended. */
const codeOf = (name: Interrupting): number => 128 + constants.signals[name];

/**
 * Aborts at the first SIGINT, SIGTERM or SIGHUP, so that the command can report what it leaves open; calls `again` at every further
 * one, with the exit code.
 */
export function interruption(again: (exitCode: number) => void): Interruption {
  const controller = new AbortController();
  let first: Interrupting | undefined;
  const listeners = SIGNALS.map((name) => {
    const listener = (): void => {
      if (first !== undefined) {
        again(codeOf(name));
        return;
      }
      first = name;
      controller.abort();
    };
    process.on(name, listener);
    return { name, listener };
  });
  return {
    signal: controller.signal,
    exitCode: () => (first === undefined ? undefined : codeOf(first)),
    [Symbol.dispose]() {
      for (const { name, listener } of listeners) process.off(name, listener);
    },
  };
}
