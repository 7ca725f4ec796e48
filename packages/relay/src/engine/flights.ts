import { setImmediate as nextTurn } from "node:timers/promises";
import type { CallKey } from "../cache/call-key.ts";
import { type UpstreamOutcome, withOwnId } from "../upstream-answer.ts";

interface Flight {
  readonly text: string;
  readonly signal: AbortSignal | undefined;
  /** Undefined once it has ended: former tables of a Map point to what was in it, and would keep every answer alive. */
  outcome: Promise<UpstreamOutcome> | undefined;
}

/** Larger answers are copied so many bytes in one turn of the event loop, and one at least. */
const LARGE_BYTES = 65_536;
const TURN_BYTES = 8 * 1_048_576;

/** Equal reads that are in flight at the same time are sent once, and each gets the answer with its own id. */
export class Flights {
  readonly #flights = new Map<number, Flight>();
  /** Those who wait to copy a large answer. */
  readonly #copiers: { readonly bytes: number; readonly go: () => void }[] = [];

  /** True for a read that {@link join} would not begin. */
  has(key: CallKey, signal: AbortSignal | undefined): boolean {
    return this.#find(key, signal) !== undefined;
  }

  #find(key: CallKey, signal: AbortSignal | undefined): Flight | undefined {
    const known = this.#flights.get(key.hash);
    return known?.text === key.text && known.signal === signal ? known : undefined;
  }

  /**
   * Joins the read of this key that is in flight, or begins it and calls `keep` at its end. `id` is the asker's own,
   * undefined for calls without one. Those who may be given up at different times do not wait for each other.
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
        return bytes > LARGE_BYTES ? this.#turnFor(bytes).then(() => own(outcome)) : own(outcome);
      });
    }
    const land = (): void => {
      if (this.#flights.get(key.hash) === flight) this.#flights.delete(key.hash);
      flight.outcome = undefined;
    };
    const outcome = run().then(
      (ended) => {
        land();
        keep(ended);
        return ended;
      },
      (fault: unknown) => {
        land();
        throw fault;
      },
    );
    const flight: Flight = { text: key.text, signal, outcome };
    this.#flights.set(key.hash, flight);
    return outcome;
  }

  /**
   * Waits for a turn to copy a large answer: who writes the copy counts its bytes in that turn, and may have no room. A
   * thousand who wait for one answer must not have a thousand copies before anybody counts.
   */
  #turnFor(bytes: number): Promise<void> {
    const { promise, resolve: go } = Promise.withResolvers<void>();
    this.#copiers.push({ bytes, go });
    if (this.#copiers.length === 1) void this.#giveTurns();
    return promise;
  }

  async #giveTurns(): Promise<void> {
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

  /** Something was written: a read that begins now must not get an answer from before. */
  forget(): void {
    this.#flights.clear();
  }
}
