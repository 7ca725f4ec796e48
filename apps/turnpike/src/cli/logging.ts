import { type Log, visibleText } from "@turnpike/base";
import pino, { type Logger } from "pino";

const SECRET = [
  "apiKey",
  "headers",
  "privateKey",
  "key",
  "keys",
  "signature",
  "payment",
  "payload",
  "authorization",
  "password",
  "token",
  "secret",
];

/** Most bytes of lines that wait for a reader that is slow; more are dropped rather than kept. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/** What a pipe takes in one piece: lines of several processes stay whole. */
const MAX_WRITE_BYTES = 4_096;

const RANKS = { debug: 20, info: 30, warn: 40, error: 50, silent: Number.POSITIVE_INFINITY };

/** Lowest level that is written. */
export type LogLevel = keyof typeof RANKS;

/** A log whose level may change while it is used; loggers made of it follow. */
export interface LeveledLog extends Log {
  setLevel(level: LogLevel): void;
}

/** Lowest rank that is written, for a log and all that were made of it. */
interface Threshold {
  rank: number;
}

function wrap(logger: Logger, threshold: Threshold): LeveledLog {
  const at =
    (level: "debug" | "info" | "warn" | "error"): Log["info"] =>
    (fields, message) => {
      if (RANKS[level] >= threshold.rank) logger[level](fields, message);
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => wrap(logger.child(fields), threshold),
    setLevel(level) {
      threshold.rank = RANKS[level];
    },
  };
}

/**
 * The process's log: JSON lines on the error output. Fields that are named like secrets are blotted out. A line is
 * written after the call that made it; what is not yet written when the process ends, also by a fault, is written then.
 */
export function createLog(opts: {
  readonly level: LogLevel;
  readonly name: string;
  /** Number of the worker that writes, where there are several. */
  readonly worker?: number;
}): LeveledLog {
  const logger = pino(
    {
      level: "debug",
      base: { name: opts.name, ...(opts.worker === undefined ? {} : { worker: opts.worker }), pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // Without these an error is written as {}.
      serializers: { cause: pino.stdSerializers.errWithCause, error: pino.stdSerializers.errWithCause },
      // Lines are read at terminals, too; JSON itself escapes only the controls below U+0020.
      hooks: { streamWrite: visibleText },
      redact: { paths: SECRET.flatMap((name) => [name, `*.${name}`]), censor: "[redacted]" },
    },
    // pino itself flushes this one when the process exits
    pino.destination({ dest: 2, sync: false, minLength: 0, maxLength: MAX_WAITING_BYTES, maxWrite: MAX_WRITE_BYTES }),
  );
  return wrap(logger, { rank: RANKS[opts.level] });
}
