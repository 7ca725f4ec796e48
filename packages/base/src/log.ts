/** Structured log of one component. Never log keys, tokens, payment payloads, or paths of upstream URLs. */
export interface Log {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void;
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
  child(fields: Readonly<Record<string, unknown>>): Log;
}

/** A log that says nothing. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};

/** What may be logged of an upstream's URL: its host. Paths and queries hold API keys. */
export function hostOf(url: string | URL): string {
  try {
    return new URL(url).host;
  } catch {
    return "invalid-url";
  }
}
