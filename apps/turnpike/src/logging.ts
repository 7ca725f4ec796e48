import type { Log } from "@turnpike/base";
import pino, { type Logger } from "pino";

const SECRET = [
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

function wrap(logger: Logger): Log {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    child: (fields) => wrap(logger.child(fields)),
  };
}

/**
 * The process's log: JSON lines on the error output. Fields that are named like secrets are blotted out. A line is
 * written after the call that made it; what is not yet written when the process ends, also by a fault, is written then.
 */
export function createLog(opts: { readonly level: string; readonly name: string }): Log {
  const logger = pino(
    {
      level: opts.level,
      base: { name: opts.name, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET.flatMap((name) => [name, `*.${name}`]), censor: "[redacted]" },
    },
    // pino itself flushes this one when the process exits
    pino.destination({ dest: 2, sync: false, minLength: 0, maxLength: MAX_WAITING_BYTES }),
  );
  return wrap(logger);
}
