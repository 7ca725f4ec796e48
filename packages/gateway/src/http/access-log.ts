import type { Clock, Log, Random } from "@turnpike/base";

/** Which requests get a line in the access log. */
export interface AccessLogOptions {
  /** Share of all requests, 0 to 1. */
  readonly sample: number;
  /** True: every answer of 500 and above gets a line too. */
  readonly errors: boolean;
}

/** One request as a line of the access log. Never its query, its body, or a path that the client made up. */
interface AccessLine {
  readonly requestId: string;
  readonly door: string;
  readonly service: string;
  /** A declared name, or undefined. */
  readonly operation: string | undefined;
  readonly verb: string | undefined;
  readonly status: number;
  readonly result: string;
  readonly durationMs: number;
  /** Of the answer's body. */
  readonly bytes: number;
  /** The client's network, not its address. */
  readonly client: string;
  readonly traceId: string | undefined;
}

/** Lines a second of failed requests outside the sample: when everything fails, a log must not make it worse. */
const MAX_ERROR_LINES = 100;

/** Writes the access log. Failures of 500 and above are warnings, the rest information. */
export class AccessLog {
  readonly #opts: () => AccessLogOptions;
  readonly #log: Log;
  readonly #clock: Clock;
  /** State of the generator; never 0, where it would stay. */
  #random: number;
  #second = 0;
  #errorLines = 0;
  #omitted = 0;

  constructor(
    opts: () => AccessLogOptions,
    modules: { readonly log: Log; readonly clock: Clock; readonly random: Random },
  ) {
    this.#opts = opts;
    this.#log = modules.log;
    this.#clock = modules.clock;
    this.#random = (Buffer.from(modules.random.bytes(4)).readUInt32LE() | 1) >>> 0;
  }

  /** Draws for one request: true when it is in the sample. */
  sample(): boolean {
    const { sample } = this.#opts();
    if (sample <= 0) return false;
    // xorshift32 (Marsaglia 2003): a sample needs no secret.
    let random = this.#random;
    random ^= random << 13;
    random ^= random >>> 17;
    random = (random ^ (random << 5)) >>> 0;
    this.#random = random;
    return random < sample * 4_294_967_296;
  }

  /** Writes a line for a request in the sample, or for one that failed; `line` is made only when it is written. */
  write(isSampled: boolean, status: number, line: () => AccessLine): void {
    const isFailure = status >= 500;
    if (!isSampled && !(isFailure && this.#opts().errors && this.#hasRoom())) return;
    const omitted = this.#omitted;
    const fields = omitted === 0 ? { ...line() } : { ...line(), omitted };
    this.#omitted = 0;
    if (isFailure) this.#log.warn(fields, "request");
    else this.#log.info(fields, "request");
  }

  #hasRoom(): boolean {
    const now = Math.floor(this.#clock.monotonicMs() / 1_000);
    if (now !== this.#second) {
      this.#second = now;
      this.#errorLines = 0;
    }
    if (this.#errorLines < MAX_ERROR_LINES) {
      this.#errorLines++;
      return true;
    }
    this.#omitted++;
    return false;
  }
}
