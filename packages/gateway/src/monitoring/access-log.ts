import type { Clock, Log } from "@turnpike/base";
import type { Random } from "../types.ts";

/** Which requests get a line in the access log. */
export interface AccessLogOptions {
  /** Share of all requests, 0 to 1. */
  readonly sample: number;
  /** True: every answer of 500 and above gets a line too. */
  readonly errors: boolean;
}

/** One request, as the access log tells it. Never its query, its body, or a path that the client made up. */
export interface AccessLine {
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

/** Writes the access log. */
export interface AccessLog {
  /** Rolls for one request: true when it is in the sample. */
  picks(): boolean;
  /** Writes a line for a request in the sample, or for one that failed; `line` is made only when it is written. */
  ended(isSampled: boolean, status: number, line: () => AccessLine): void;
}

/** Lines a second of failed requests outside the sample: when everything fails, a log must not make it worse. */
const MAX_ERROR_LINES = 100;

/** The access log. Failures of 500 and above are warnings, the rest information. */
export function createAccessLog(
  opts: () => AccessLogOptions,
  modules: { readonly log: Log; readonly clock: Clock; readonly random: Random },
): AccessLog {
  const { log, clock } = modules;
  // Never 0, where this generator would stay.
  let state = (Buffer.from(modules.random.bytes(4)).readUInt32LE() | 1) >>> 0;
  let second = 0;
  let inSecond = 0;
  let omitted = 0;

  const hasRoom = (): boolean => {
    const now = Math.floor(clock.monotonicMs() / 1_000);
    if (now !== second) {
      second = now;
      inSecond = 0;
    }
    if (inSecond < MAX_ERROR_LINES) {
      inSecond++;
      return true;
    }
    omitted++;
    return false;
  };

  return {
    picks() {
      const { sample } = opts();
      if (sample <= 0) return false;
      // xorshift32 (Marsaglia 2003): a sample needs no secret.
      state ^= state << 13;
      state ^= state >>> 17;
      state = (state ^ (state << 5)) >>> 0;
      return state < sample * 4_294_967_296;
    },
    ended(isSampled, status, line) {
      const isFailure = status >= 500;
      if (!isSampled && !(isFailure && opts().errors && hasRoom())) return;
      const fields = omitted === 0 ? { ...line() } : { ...line(), omitted };
      omitted = 0;
      if (isFailure) log.warn(fields, "request");
      else log.info(fields, "request");
    },
  };
}
