import { type StatWatcher, unwatchFile, watchFile } from "node:fs";

/** Options of {@link watchConfigFile}. */
export interface ConfigWatchOptions {
  readonly file: string;
  /** Time between two looks at the file. */
  readonly intervalMs: number;
  /** How long it must have stayed as it is: editors write in several steps. */
  readonly settleMs: number;
}

/**
 * Calls back when a file was changed and has settled. The file is looked at, not listened to: that also sees what is put
 * in its place by a rename, a link that is turned (as mounted secrets are), and files of other machines.
 */
export function watchConfigFile(opts: ConfigWatchOptions, onChange: () => void): Disposable {
  let timer: NodeJS.Timeout | undefined;
  const listener = (): void => {
    clearTimeout(timer);
    timer = setTimeout(onChange, opts.settleMs);
    timer.unref();
  };
  const watcher: StatWatcher = watchFile(opts.file, { interval: opts.intervalMs, persistent: false }, listener);
  watcher.unref();
  return {
    [Symbol.dispose]() {
      clearTimeout(timer);
      unwatchFile(opts.file, listener);
    },
  };
}
