/** How many blocks of logs a node is asked for at once: as many as it was found to answer. */
export interface WindowSize {
  current(): number;
  /** It did not answer for so many. */
  failed(blocks: number): void;
  answered(blocks: number): void;
  /** Starts again with the most. */
  reset(): void;
}

/** Answers at the largest size that is known to do, before a larger one is tried again. */
const GROW_AFTER = 50;

/**
 * Starts with the most. The size is searched for by halving between one that was answered and one that was not, which is
 * remembered: what was refused is not asked for again at once.
 */
export function createWindowSize(most: number): WindowSize {
  let size = most;
  /** The smallest that was not answered. */
  let tooLarge = most + 1;
  let answers = 0;
  return {
    current: () => size,
    failed(blocks) {
      tooLarge = Math.max(2, Math.min(tooLarge, blocks));
      size = Math.max(1, Math.min(size, Math.floor(blocks / 2)));
      answers = 0;
    },
    answered(blocks) {
      if (blocks < size) return;
      answers++;
      if (size + 1 === tooLarge && answers >= GROW_AFTER) {
        tooLarge = Math.min(most + 1, tooLarge * 2);
        answers = 0;
      }
      size = Math.floor((size + tooLarge) / 2);
    },
    reset() {
      size = most;
      tooLarge = most + 1;
      answers = 0;
    },
  };
}
