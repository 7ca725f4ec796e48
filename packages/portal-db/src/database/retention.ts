import { setTimeout } from "node:timers/promises";
import type { Log } from "@turnpike/base";
import { askInTime, type RolePool } from "./pool.ts";

interface RetentionOptions {
  /** Age, in days, at which rows of the audit go; the database takes none below 30. */
  readonly auditDays: number;
  /** How often there is a look for what is too old; an hour by default. The first is at once. */
  readonly everyMs?: number;
  /** Most rows of a kind that one statement removes; 1,000 by default. */
  readonly batchRows?: number;
}

const EVERY_MS = 3_600_000;
const BATCH_ROWS = 1_000;
/** Between two batches, so that requests come first. */
const PAUSE_MS = 100;
const TIMEOUT_MS = 10_000;

/** Removes what is too old, again and again. */
export interface Retention extends AsyncDisposable {
  /** Resolves when there was a look. */
  readonly looked: Promise<void>;
}

/**
 * Removes old rows of the audit, ids of tokens that have ended anyhow, and sums of calls of past years, in small batches
 * by a function of the database: the server's role may delete nothing itself. Any number of servers may do it at once.
 * A failure is logged and tried again the next time.
 */
export function startRetention(
  opts: RetentionOptions,
  { pool, log }: { readonly pool: RolePool; readonly log: Log },
): Retention {
  const { auditDays, everyMs = EVERY_MS, batchRows = BATCH_ROWS } = opts;
  const ended = new AbortController();
  const pause = async (ms: number): Promise<void> => {
    try {
      await setTimeout(ms, undefined, { ref: false, signal: ended.signal });
    } catch {
      // It ends.
    }
  };
  const deleteBatch = async (): Promise<number> => {
    const rows = await askInTime<{ gone: number }>(pool, TIMEOUT_MS, {
      text: "select portal_private.forget($1, $2) as gone",
      values: [auditDays, batchRows],
    });
    return rows[0]?.gone ?? 0;
  };
  const look = async (): Promise<void> => {
    let total = 0;
    try {
      for (let gone = -1; gone !== 0 && !ended.signal.aborted; ) {
        gone = await deleteBatch();
        total += gone;
        if (gone > 0) await pause(PAUSE_MS);
      }
    } catch (error) {
      log.warn({ error: error instanceof Error ? error.message : typeof error }, "old rows could not be removed");
    }
    if (total > 0) log.info({ rows: total }, "old rows were removed");
  };
  const first = look();
  const work = async (): Promise<void> => {
    await first;
    for (await pause(everyMs); !ended.signal.aborted; await pause(everyMs)) await look();
  };
  const working = work();
  return {
    looked: first,
    async [Symbol.asyncDispose]() {
      ended.abort();
      await working;
    },
  };
}
