import { type Stats, stat, statSync } from "node:fs";

export interface ConfigWatchOptions {
  readonly file: string;
  /** Time between two looks at the file. */
  readonly intervalMs: number;
  /** How long it must have stayed as it is: editors write in several steps. */
  readonly settleMs: number;
}

/** What changes with a file, and with what stands in its place. */
function lookOf(stats: Stats | undefined): string {
  return stats === undefined ? "" : `${stats.dev} ${stats.ino} ${stats.size} ${stats.mtimeMs}`;
}

/**
 * Calls back when a file was changed after this call and has settled. The file is looked at, not listened to: that also
 * sees what is put in its place by a rename, a link that is turned (as mounted secrets are), and files of other machines.
 * How it is now is read at once: the runtime's own watcher reads it some time later, and misses what happens until then.
 */
export function watchConfigFile(opts: ConfigWatchOptions, onChange: () => void): Disposable {
  let last = lookOf(statSync(opts.file, { throwIfNoEntry: false }));
  let settling: NodeJS.Timeout | undefined;
  let isOver = false;
  const look = (stats: Stats | undefined): void => {
    const now = lookOf(stats);
    if (isOver || now === last) return;
    last = now;
    clearTimeout(settling);
    settling = setTimeout(onChange, opts.settleMs);
    settling.unref();
  };
  const timer = setInterval(() => {
    stat(opts.file, (error, stats) => look(error === null ? stats : undefined));
  }, opts.intervalMs);
  timer.unref();
  return {
    [Symbol.dispose]() {
      isOver = true;
      clearInterval(timer);
      clearTimeout(settling);
    },
  };
}
