import { type Clock, systemClock, visibleLine } from "@turnpike/base";

/** One line of a terminal that is written over and over. */
export interface ProgressLine extends Disposable {
  /** Shows a text, at most ten times a second. */
  show(text: string): void;
  /** Takes the line away, so that something else can be written. */
  clear(): void;
}

/** Where {@link createProgressLine} writes. */
export interface ProgressStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

const EVERY_MS = 100;
const CLEAR = "\r\u001b[K";

/** Makes a line on the error output. Without a terminal, or when it is not to be shown, it writes nothing. */
export function createProgressLine(
  opts: { readonly isShown: boolean },
  stream: ProgressStream = process.stderr,
  clock: Clock = systemClock,
): ProgressLine {
  const isShown = opts.isShown && stream.isTTY === true;
  let lastMs = Number.NEGATIVE_INFINITY;
  let isThere = false;
  const clear = (): void => {
    if (isThere) stream.write(CLEAR);
    isThere = false;
  };
  return {
    show(text) {
      const nowMs = clock.monotonicMs();
      if (!isShown || nowMs - lastMs < EVERY_MS) return;
      lastMs = nowMs;
      isThere = true;
      // Names of pages and files are part of it. The ellipsis takes a column, too.
      stream.write(`${CLEAR}${visibleLine(text, Math.max(1, (stream.columns ?? 80) - 2))}`);
    },
    clear,
    [Symbol.dispose]: clear,
  };
}
