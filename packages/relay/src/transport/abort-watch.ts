import { DenseList, type DenseListItem } from "@turnpike/base";

/** A callback that waits for a signal. */
export interface AbortWatch extends DenseListItem {
  readonly callback: () => void;
}

interface Watches {
  readonly list: DenseList<AbortWatch>;
  readonly fire: () => void;
}

const watches = new WeakMap<AbortSignal, Watches>();

/**
 * Calls back when a signal fires. Many calls share one long-lived signal: they are one listener on it, since adding and
 * removing a listener for each costs more than all the rest of a small call's bookkeeping. The listener is removed with the
 * last of them: Node retains a signal of `AbortSignal.any` for as long as it has a listener and its sources may fire.
 */
export function watchAbort(signal: AbortSignal, callback: () => void): AbortWatch {
  let entry = watches.get(signal);
  if (entry === undefined) {
    const list = new DenseList<AbortWatch>();
    const fire = (): void => {
      for (const one of list.drain()) one.callback();
    };
    entry = { list, fire };
    watches.set(signal, entry);
  }
  const { list, fire } = entry;
  if (list.size === 0) signal.addEventListener("abort", fire, { once: true });
  const watch: AbortWatch = { callback, listIndex: -1 };
  list.add(watch);
  return watch;
}

/** The callback is not called any more. Does nothing when it was called. */
export function unwatchAbort(signal: AbortSignal, watch: AbortWatch): void {
  const entry = watches.get(signal);
  if (entry?.list.remove(watch) === true && entry.list.size === 0) signal.removeEventListener("abort", entry.fire);
}
