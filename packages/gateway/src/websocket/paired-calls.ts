import { jsonMemberSpans, jsonText, skipJsonSpace } from "@turnpike/base";

/** True for an object that has an `id` and no `method` (JSON-RPC 2.0 §5). */
function isAnswer(message: Uint8Array): boolean {
  const text = jsonText(message);
  const members = jsonMemberSpans(text, skipJsonSpace(text, 0))?.members;
  return members?.some(({ key }) => key === "id") === true && !members.some(({ key }) => key === "method");
}

/**
 * Calls that a client has sent over its own WebSocket to a supplier and that are not answered: each is among the client's
 * calls in flight. Only their number matters, so that any answer ends the oldest.
 */
export class PairedCalls {
  readonly #acquire: () => (() => void) | undefined;
  #unanswered: { readonly sinceTick: number; readonly release: () => void }[] = [];
  #tick = 0;
  #isOver = false;

  constructor(acquire: () => (() => void) | undefined) {
    this.#acquire = acquire;
  }

  /** Begins a call; false when its client has too many in flight. */
  begin(): boolean {
    const release = this.#isOver ? undefined : this.#acquire();
    if (release === undefined) return false;
    this.#unanswered.push({ sinceTick: this.#tick, release });
    return true;
  }

  /** True for a message that answers a call, which it ends. */
  answered(message: Uint8Array): boolean {
    if (this.#unanswered.length === 0 || !isAnswer(message)) return false;
    this.#unanswered.shift()?.release();
    return true;
  }

  /** Ends calls that are unanswered after more than so many calls of this. */
  tick(maxTicks: number): void {
    this.#tick++;
    while (this.#tick - (this.#unanswered[0]?.sinceTick ?? this.#tick) > maxTicks) this.#unanswered.shift()?.release();
  }

  /** Ends all, and refuses others. */
  end(): void {
    this.#isOver = true;
    for (const { release } of this.#unanswered) release();
    this.#unanswered = [];
  }
}
