import { type Finding, withOwnId } from "./found.ts";

interface Flight {
  readonly signal: AbortSignal | undefined;
  readonly finding: Promise<Finding>;
}

/** Equal reads that are in flight at the same time are sent once, and each gets the answer with its own id. */
export class Flights {
  readonly #flights = new Map<string, Flight>();

  /** True for a read that {@link join} would not begin. */
  has(key: string, signal: AbortSignal | undefined): boolean {
    return this.#find(key, signal) !== undefined;
  }

  #find(key: string, signal: AbortSignal | undefined): Flight | undefined {
    const known = this.#flights.get(key);
    return known?.signal === signal ? known : undefined;
  }

  /**
   * Joins the read of this key that is in flight, or begins it and calls `keep` at its end. `id` is the asker's own,
   * undefined for calls without one. Those who may be given up at different times do not wait for each other.
   */
  join(
    key: string,
    id: string | undefined,
    signal: AbortSignal | undefined,
    run: () => Promise<Finding>,
    keep: (finding: Finding) => void,
  ): Promise<Finding> {
    const known = this.#find(key, signal);
    if (known !== undefined) {
      return known.finding.then((finding) => {
        if (!finding.ok) return finding;
        if (id === undefined) return finding.found.stream === undefined ? finding : run();
        const found = withOwnId(finding.found, id);
        return found === undefined ? run() : { ok: true, found };
      });
    }
    const land = (): void => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    const finding = run().then(
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
    const flight: Flight = { signal, finding };
    this.#flights.set(key, flight);
    return finding;
  }

  /** Something was written: a read that begins now must not get an answer from before. */
  forget(): void {
    this.#flights.clear();
  }
}
