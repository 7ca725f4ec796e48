import { pause } from "./waiters.ts";

/** Polls after something was sent, for chains that mine at once. */
const QUICK_MS = [1, 4, 15, 50, 100, 200];

/** Says when to poll a chain again: at once after something was sent, then slower and slower. */
export class PollPacer {
  readonly #slowestMs: number;
  readonly #idleMs: number;
  #step = 0;
  #wake = new AbortController();

  /** `slowestMs` between polls while something is open, `idleMs` otherwise. */
  constructor(slowestMs: number, idleMs: number) {
    this.#slowestMs = slowestMs;
    this.#idleMs = idleMs;
  }

  /** Something was sent: poll at once. */
  wake(): void {
    this.#step = 0;
    this.#wake.abort();
  }

  /** Waits for the next poll; `busy` is false when nothing is open. Never rejects. */
  async next(busy: boolean, signal: AbortSignal): Promise<void> {
    const isWoken = this.#wake.signal.aborted;
    const delayMs = busy || isWoken ? Math.min(QUICK_MS[this.#step] ?? this.#slowestMs, this.#slowestMs) : this.#idleMs;
    if (isWoken) this.#wake = new AbortController();
    this.#step++;
    await pause(delayMs, AbortSignal.any([signal, this.#wake.signal]));
  }
}
