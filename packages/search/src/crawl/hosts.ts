/** Longest wait that a host may ask for; one that asks for more is left alone until the next run. */
const MAX_RETRY_AFTER_MS = 300_000;
/** First wait after an answer that asks for patience without saying how much; doubled each time. */
const BACK_OFF_MS = 1_000;
const MAX_BACK_OFF_MS = 60_000;
/** Answers in a row that ask for patience, and faults of the network in a row, after which a host is left alone. */
const MAX_BACK_OFFS = 8;
const MAX_FAULTS = 10;

interface HostState {
  isBusy: boolean;
  /** Not before this time, in milliseconds of the monotonic clock. */
  nextMs: number;
  delayMs: number;
  backOffs: number;
  faults: number;
  isLeft: boolean;
}

/** When each host may be asked again: one request at a time, with pauses, and longer ones when it asks for them. */
export class Hosts {
  readonly #delayMs: number;
  readonly #clock: { monotonicMs(): number };
  readonly #hosts = new Map<string, HostState>();

  constructor(options: { readonly delayMs: number }, modules: { readonly clock: { monotonicMs(): number } }) {
    this.#delayMs = options.delayMs;
    this.#clock = modules.clock;
  }

  /** The host that may be asked first of those not being asked, and when; undefined when there is none. */
  first(hosts: Iterable<string>): { readonly host: string; readonly inMs: number } | undefined {
    let found: { host: string; nextMs: number } | undefined;
    for (const host of hosts) {
      const { isBusy, isLeft, nextMs } = this.#of(host);
      if (!isBusy && !isLeft && (found === undefined || nextMs < found.nextMs)) found = { host, nextMs };
    }
    if (found === undefined) return undefined;
    return { host: found.host, inMs: Math.max(0, found.nextMs - this.#clock.monotonicMs()) };
  }

  /** A request to it begins. */
  begin(host: string): void {
    this.#of(host).isBusy = true;
  }

  /** Nothing is under way to it any more. */
  end(host: string): void {
    this.#of(host).isBusy = false;
  }

  /** A request to it was answered, well or not: now it has its pause. */
  answered(host: string): void {
    const state = this.#of(host);
    state.faults = 0;
    state.backOffs = 0;
    this.#pause(state, state.delayMs);
  }

  /** Its robots.txt asks for this pause. */
  slowDown(host: string, delayMs: number): void {
    const state = this.#of(host);
    state.delayMs = Math.max(state.delayMs, delayMs);
  }

  /** It asks for patience: 429 or 503. */
  backOff(host: string, retryAfterMs: number | undefined): void {
    const state = this.#of(host);
    state.backOffs++;
    const ownMs = Math.min(MAX_BACK_OFF_MS, BACK_OFF_MS * 2 ** (state.backOffs - 1));
    if (state.backOffs >= MAX_BACK_OFFS || (retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) state.isLeft = true;
    this.#pause(state, Math.max(state.delayMs, retryAfterMs ?? ownMs));
  }

  /** It was not reached, or broke off. */
  failed(host: string): void {
    const state = this.#of(host);
    state.faults++;
    if (state.faults >= MAX_FAULTS) state.isLeft = true;
    this.#pause(state, state.delayMs);
  }

  /** It is left alone until the next run. */
  leave(host: string): void {
    this.#of(host).isLeft = true;
  }

  #pause(state: HostState, ms: number): void {
    state.nextMs = Math.max(state.nextMs, this.#clock.monotonicMs() + ms);
  }

  #of(host: string): HostState {
    const known = this.#hosts.get(host);
    if (known !== undefined) return known;
    const nextMs = Number.NEGATIVE_INFINITY;
    const made = { isBusy: false, nextMs, delayMs: this.#delayMs, backOffs: 0, faults: 0, isLeft: false };
    this.#hosts.set(host, made);
    return made;
  }
}
