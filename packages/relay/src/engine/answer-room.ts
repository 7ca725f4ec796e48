/**
 * Most bytes of one batch's answers together; a single answer that is larger has room by itself. A short batch of equal
 * calls can ask for gigabytes.
 */
const MAX_BATCH_ANSWER_BYTES = 32 * 1_048_576;
/** An answer that is no larger costs no more than its refusal: so much there is always room for. */
export const SMALL_ANSWER_BYTES = 1_024;

/** The bytes that are left for the answers to one batch. */
export class AnswerRoom {
  #used = 0;
  #isFull = false;

  /** True once something had no room: nothing more need be asked for. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Takes an answer's bytes; false when there is no room for it, which is then ANSWER_TOO_LARGE. */
  take(bytes: number): boolean {
    if (bytes <= SMALL_ANSWER_BYTES) return true;
    if (this.#used > 0 && this.#used + bytes > MAX_BATCH_ANSWER_BYTES) {
      this.#isFull = true;
      return false;
    }
    this.#used += bytes;
    return true;
  }
}
