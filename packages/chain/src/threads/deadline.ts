import type { Bytes, Derivation, RangeOptions } from "@turnpike/chain-store";
import type { StateReads } from "../state/overlay.ts";

/** Thrown by a state that is read past its {@link Deadline}. */
class DeadlinePassed extends Error {}

/** How long one piece of work may read. */
export class Deadline {
  readonly #nowMs: () => number;
  readonly #untilMs: number;
  /** Whether a read was refused: then the answer is none, whatever was made of it. */
  passed = false;

  constructor(opts: { readonly maxRunMs: number }, { nowMs }: { readonly nowMs: () => number }) {
    this.#nowMs = nowMs;
    this.#untilMs = nowMs() + opts.maxRunMs;
  }

  /** @throws DeadlinePassed */
  check(): void {
    if (!this.passed && this.#nowMs() < this.#untilMs) return;
    this.passed = true;
    throw new DeadlinePassed("the deadline of a read has passed");
  }
}

/** A state whose every read asks the deadline first: what reads it ends soon after. */
export class TimedReads implements StateReads {
  readonly #state: StateReads;
  readonly #deadline: Deadline;

  constructor(state: StateReads, deadline: Deadline) {
    this.#state = state;
    this.#deadline = deadline;
  }

  get(key: Bytes): Bytes | undefined {
    this.#deadline.check();
    return this.#state.get(key);
  }

  *range(options: RangeOptions): Generator<readonly [key: Bytes, value: Bytes]> {
    for (const entry of this.#state.range(options)) {
      this.#deadline.check();
      yield entry;
    }
  }

  derived<T>(derivation: Derivation<T>, prefix: Bytes): T {
    this.#deadline.check();
    if (this.#state.derived !== undefined) return this.#state.derived(derivation, prefix);
    return derivation.make(this.range({ prefix }));
  }
}
