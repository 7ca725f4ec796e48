import { DenseList, type DenseListItem } from "@turnpike/base";

/** A callback that waits for a signal. */
export interface AbortWatch extends DenseListItem {
  readonly callback: () => void;
}

const watches = new WeakMap<AbortSignal, DenseList<AbortWatch>>();

/**
 * Calls back when a signal fires. Many calls share one long-lived signal: they are one listener on it, since adding and
 * removing a listener for each costs more than all the rest of a small call's bookkeeping.
 */
export function watchAbort(signal: AbortSignal, callback: () => void): AbortWatch {
  let list = watches.get(signal);
  if (list === undefined) {
    const all = new DenseList<AbortWatch>();
    list = all;
    watches.set(signal, all);
    const fire = (): void => {
      for (const one of all.drain()) one.callback();
    };
    signal.addEventListener("abort", fire, { once: true });
  }
  const watch: AbortWatch = { callback, listIndex: -1 };
  list.add(watch);
  return watch;
}

/** The callback is not called any more. Does nothing when it was called. */
export function unwatchAbort(signal: AbortSignal, watch: AbortWatch): void {
  watches.get(signal)?.remove(watch);
}
