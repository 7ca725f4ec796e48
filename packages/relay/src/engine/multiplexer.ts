import { setImmediate as nextTurn } from "node:timers/promises";
import { type UpstreamOutcome, withOwnId } from "../answers/upstream-answer.ts";
import type { CallKey } from "../cache/call-key.ts";

interface InFlightRead {
  readonly text: string;
  readonly signal: AbortSignal | undefined;
  /** Undefined once it has ended: former tables of a Map point to what was in it, and would keep every answer alive. */
  outcome: Promise<UpstreamOutcome> | undefined;
}

/** Larger answers are copied so many bytes in one turn of the event loop, and one at least. */
const LARGE_BYTES = 65_536;
const TURN_BYTES = 8 * 1_048_576;

/** Equal reads that are in flight at the same time are sent once, and each gets the answer with its own id. */
export class Multiplexer {
  readonly #reads = new Map<number, InFlightRead>();
  /** Callers that wait to copy a large answer. */
  readonly #copiers: { readonly bytes: number; readonly go: () => void }[] = [];

  /** True for a read that {@link join} would not begin. */
  has(key: CallKey, signal: AbortSignal | undefined): boolean {
    return this.#find(key, signal) !== undefined;
  }

  #find(key: CallKey, signal: AbortSignal | undefined): InFlightRead | undefined {
    const known = this.#reads.get(key.hash);
    return known?.text === key.text && known.signal === signal ? known : undefined;
  }

  /**
   * Joins the read of this key that is in flight, or begins it and calls `keep` at its end. `id` is the caller's own,
   * undefined for calls without one. Reads with different abort signals do not wait for each other.
   */
  join(
    key: CallKey,
    id: string | undefined,
    signal: AbortSignal | undefined,
    run: () => Promise<UpstreamOutcome>,
    keep: (outcome: UpstreamOutcome) => void,
  ): Promise<UpstreamOutcome> {
    const known = this.#find(key, signal)?.outcome;
    if (known !== undefined) {
      const own = (outcome: UpstreamOutcome): UpstreamOutcome | Promise<UpstreamOutcome> => {
        if (!outcome.ok) return outcome;
        if (id === undefined) return outcome.stream === undefined ? outcome : run();
        return withOwnId(outcome, id) ?? run();
      };
      return known.then((outcome) => {
        const bytes = outcome.ok && id !== undefined ? outcome.body.length : 0;
        return bytes > LARGE_BYTES ? this.#waitToCopy(bytes).then(() => own(outcome)) : own(outcome);
      });
    }
    const landed = (): void => {
      if (this.#reads.get(key.hash) === read) this.#reads.delete(key.hash);
      read.outcome = undefined;
    };
    const outcome = run().then(
      (ended) => {
        landed();
        keep(ended);
        return ended;
      },
      (fault: unknown) => {
        landed();
        throw fault;
      },
    );
    const read: InFlightRead = { text: key.text, signal, outcome };
    this.#reads.set(key.hash, read);
    return outcome;
  }

  /**
   * Waits until a large answer may be copied: the bytes of a copy are counted in the same turn of the event loop, and may
   * exceed their budget. A thousand callers of one answer must not have a thousand copies before the first is counted.
   */
  #waitToCopy(bytes: number): Promise<void> {
    const { promise, resolve: go } = Promise.withResolvers<void>();
    this.#copiers.push({ bytes, go });
    if (this.#copiers.length === 1) void this.#releaseCopiers();
    return promise;
  }

  async #releaseCopiers(): Promise<void> {
    while (this.#copiers.length > 0) {
      await nextTurn();
      let left = TURN_BYTES;
      let count = 0;
      for (const { bytes, go } of this.#copiers) {
        if (count > 0 && bytes > left) break;
        left -= bytes;
        count++;
        go();
      }
      this.#copiers.splice(0, count);
    }
  }

  /** After a write: a read that begins now must not get an older answer. */
  clear(): void {
    this.#reads.clear();
  }
}
