import { type Clock, isAppError } from "@turnpike/base";

/**
 * The result of a read of the chain. `refused`: the node answered that there is no such thing or that the question is wrong;
 * `unreachable`: there was no answer in time and none is cached; `busy`: too many questions are open.
 */
export type ChainAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      readonly fault: "refused" | "unreachable" | "busy";
      /** The chain's own text, or why it could not be asked. */
      readonly text: string;
    };

/** A source's answer, and how long it holds. */
export interface Loaded<T> {
  readonly answer: ChainAnswer<T>;
  /** `forever`: it can never change. `fresh`: until it is older than the cache's freshMs. `brief`: for a moment. */
  readonly holds: "forever" | "fresh" | "brief";
}

/** Bounds of a {@link QueryCache}. */
export interface QueryCacheOptions {
  /** Most entries; the one that was not used for longest goes first. */
  readonly maxEntries: number;
  /** An older answer that may change is asked for again, behind the caller's back. */
  readonly freshMs: number;
  /** So long a refusal or an unreachable node is answered without asking again. */
  readonly briefMs: number;
  /** Longest wait for the node. */
  readonly timeoutMs: number;
}

/** Questions that are open at once, over all caches that share it. */
export interface Flights {
  open: number;
  readonly most: number;
}

interface Entry<T> {
  answer: ChainAnswer<T>;
  /** Until then it is answered without another question. */
  validUntilMs: number;
}

/** How one read is made. */
export interface ReadOptions {
  /** Ask the node now, whatever is cached; the cached answer is returned when the node cannot be reached. */
  readonly fresh?: boolean;
  /** Ends the caller's wait; the question itself goes on for others. */
  readonly signal?: AbortSignal;
}

const UNREACHABLE = "The chain's node did not answer in time.";

/** The answer that stands for a fault on the way to the node. */
export function unreachable(cause: unknown): {
  readonly ok: false;
  readonly fault: "unreachable";
  readonly text: string;
} {
  return { ok: false, fault: "unreachable", text: isAppError(cause) ? cause.message : UNREACHABLE };
}

/**
 * Answers by key, each question asked once at a time. A cached answer is returned at once, also when it is old: then it is
 * renewed in the background, so that a slow or dead node delays no reader.
 */
export class QueryCache<T> {
  readonly #options: QueryCacheOptions;
  readonly #clock: Clock;
  readonly #flights: Flights;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #open = new Map<string, Promise<ChainAnswer<T>>>();
  #clearings = 0;

  constructor(options: QueryCacheOptions, { clock, flights }: { readonly clock: Clock; readonly flights: Flights }) {
    this.#options = options;
    this.#clock = clock;
    this.#flights = flights;
  }

  /** The cached answer, else the node's. */
  read(
    key: string,
    load: (signal: AbortSignal) => Promise<Loaded<T>>,
    { fresh = false, signal }: ReadOptions = {},
  ): Promise<ChainAnswer<T>> {
    const entry = this.#entries.get(key);
    if (entry !== undefined && !fresh) {
      this.#entries.delete(key);
      this.#entries.set(key, entry);
      const isValid = this.#clock.monotonicMs() < entry.validUntilMs;
      if (!isValid && entry.answer.ok) void this.#flight(key, load);
      if (isValid || entry.answer.ok) return Promise.resolve(entry.answer);
    }
    const flight = this.#flight(key, load);
    return signal === undefined ? flight : abandoned(flight, signal);
  }

  /** An answer that turned out to be wrong. */
  delete(key: string): void {
    this.#entries.delete(key);
  }

  /** Nothing holds any more: neither what is known, nor the answers to questions that are open. */
  clear(): void {
    this.#clearings++;
    this.#entries.clear();
    this.#open.clear();
  }

  #flight(key: string, load: (signal: AbortSignal) => Promise<Loaded<T>>): Promise<ChainAnswer<T>> {
    const open = this.#open.get(key);
    if (open !== undefined) return open;
    if (this.#flights.open >= this.#flights.most) {
      const known = this.#entries.get(key)?.answer;
      const busy: ChainAnswer<T> = { ok: false, fault: "busy", text: "Too many questions to the chain are open." };
      return Promise.resolve(known?.ok === true ? known : busy);
    }
    this.#flights.open++;
    const flight = this.#ask(key, load).finally(() => {
      this.#flights.open--;
      if (this.#open.get(key) === flight) this.#open.delete(key);
    });
    this.#open.set(key, flight);
    return flight;
  }

  async #ask(key: string, load: (signal: AbortSignal) => Promise<Loaded<T>>): Promise<ChainAnswer<T>> {
    const clearings = this.#clearings;
    let loaded: Loaded<T>;
    try {
      loaded = await load(AbortSignal.timeout(this.#options.timeoutMs));
    } catch (cause) {
      loaded = { answer: unreachable(cause), holds: "brief" };
    }
    if (clearings !== this.#clearings) return loaded.answer;
    const known = this.#entries.get(key);
    // An unreachable node invalidates nothing; it is not asked again at once, either.
    if (!loaded.answer.ok && loaded.answer.fault === "unreachable" && known?.answer.ok === true) {
      known.validUntilMs = this.#clock.monotonicMs() + this.#options.briefMs;
      return known.answer;
    }
    this.#keep(key, loaded);
    return loaded.answer;
  }

  #keep(key: string, { answer, holds }: Loaded<T>): void {
    const { freshMs, briefMs, maxEntries } = this.#options;
    const ageMs = holds === "forever" ? Number.POSITIVE_INFINITY : holds === "fresh" ? freshMs : briefMs;
    this.#entries.delete(key);
    this.#entries.set(key, { answer, validUntilMs: this.#clock.monotonicMs() + ageMs });
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size > maxEntries) this.#entries.delete(oldest);
  }
}

function abandoned<T>(flight: Promise<ChainAnswer<T>>, signal: AbortSignal): Promise<ChainAnswer<T>> {
  const { promise, resolve } = Promise.withResolvers<ChainAnswer<T>>();
  const abort = (): void => resolve({ ok: false, fault: "unreachable", text: UNREACHABLE });
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  void flight.then(resolve).finally(() => signal.removeEventListener("abort", abort));
  return promise;
}
