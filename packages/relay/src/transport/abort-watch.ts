const watches = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls back when a signal fires. Many calls share one long-lived signal: they are one listener on it, since adding and
 * removing a listener for each costs more than all the rest of a small call's bookkeeping.
 */
export function watchAbort(signal: AbortSignal, callback: () => void): void {
  let callbacks = watches.get(signal);
  if (callbacks === undefined) {
    const all = new Set<() => void>();
    callbacks = all;
    watches.set(signal, all);
    const fire = (): void => {
      for (const one of all) one();
    };
    signal.addEventListener("abort", fire, { once: true });
  }
  callbacks.add(callback);
}

/** Takes a callback back. */
export function unwatchAbort(signal: AbortSignal, callback: () => void): void {
  watches.get(signal)?.delete(callback);
}
