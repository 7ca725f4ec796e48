import { AppError, type Clock, type Log, type Metrics } from "@turnpike/base";
import pg from "pg";
import { keepsConnection, ledgerError } from "./database-errors.ts";
import { ledgerConnections, ledgerQuerySeconds } from "./metrics.ts";

/** One statement, prepared once on each connection. */
export interface Statement {
  /** Names it in metrics, errors and on the server. */
  readonly name: string;
  readonly text: string;
  /** True when it commits something. */
  readonly writes: boolean;
}

/** What a statement takes: numbers beyond 2^53 as decimal text. */
export type SqlValue = string | number | boolean | Uint8Array | null | readonly string[] | readonly number[];

/** A pool of connections, its bounds and its times. */
export interface DatabaseOptions {
  /** Names the pool in metrics: `calls`, `sums` or `renewals`. Sums are cut off at the end: no caller waits for them any more. */
  readonly pool: "calls" | "sums" | "renewals";
  readonly url: string;
  readonly poolSize: number;
  /** Calls that may wait for a connection; more are refused. */
  readonly queueLimit: number;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
  /** The server ends the statement first; so much later the call ends, if the server does not answer at all. */
  readonly silenceMarginMs: number;
  /** True when the server's default would let a commit return before it is on disk. */
  readonly forceSync: boolean;
}

interface DatabaseModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** A bounded pool of connections. Every statement is one round trip and one transaction. */
export interface Database extends AsyncDisposable {
  /** Runs a statement. Throws AppError LEDGER_UNAVAILABLE, LEDGER_SCHEMA or INTERNAL. */
  run<Row extends object>(statement: Statement, values: readonly SqlValue[]): Promise<readonly Row[]>;
}

/** Makes the pool; connects when it is first used. */
export function openDatabase(opts: DatabaseOptions, { clock, log, metrics }: DatabaseModules): Database {
  const pool = new pg.Pool({
    connectionString: opts.url,
    max: opts.poolSize,
    connectionTimeoutMillis: opts.connectTimeoutMs,
    statement_timeout: opts.statementTimeoutMs,
    query_timeout: opts.statementTimeoutMs + opts.silenceMarginMs,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    application_name: "turnpike",
    ...(opts.forceSync ? { options: "-c synchronous_commit=on" } : {}),
  });
  pool.on("error", (error) => log.warn({ error: error.message }, "an idle connection to the ledger was lost"));

  const busy = new Set<pg.PoolClient>();

  const connect = async (statement: Statement): Promise<pg.PoolClient> => {
    if (pool.waitingCount >= opts.queueLimit) {
      throw new AppError("LEDGER_UNAVAILABLE", {
        detail: { method: statement.name, queue: pool.waitingCount, sent: false },
      });
    }
    try {
      return await pool.connect();
    } catch (error) {
      throw ledgerError(error, { method: statement.name, sent: false, writes: statement.writes });
    }
  };

  const send = async <Row extends object>(
    client: pg.PoolClient,
    { name, text, writes }: Statement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> => {
    let broken: Error | undefined;
    const onError = (error: Error): void => {
      broken = error;
    };
    // A connection that fails while it is checked out says so here as well; unheard it would end the process.
    client.on("error", onError);
    busy.add(client);
    try {
      const result = await client.query<Row>({ name, text, values: [...values] });
      return result.rows;
    } catch (error) {
      if (!keepsConnection(error)) broken ??= error instanceof Error ? error : new AppError("LEDGER_UNAVAILABLE");
      throw ledgerError(error, { method: name, sent: true, writes });
    } finally {
      busy.delete(client);
      client.release(broken);
      client.off("error", onError);
    }
  };

  return {
    async run(statement, values) {
      const start = clock.monotonicMs();
      let outcome = "failed";
      try {
        const rows = await send<never>(await connect(statement), statement, values);
        outcome = "done";
        return rows;
      } finally {
        metrics.observe(ledgerQuerySeconds, (clock.monotonicMs() - start) / 1_000, { method: statement.name, outcome });
        metrics.set(ledgerConnections, pool.totalCount - pool.idleCount, { pool: opts.pool, state: "busy" });
        metrics.set(ledgerConnections, pool.idleCount, { pool: opts.pool, state: "idle" });
        metrics.set(ledgerConnections, pool.waitingCount, { pool: opts.pool, state: "waiting" });
      }
    },
    async [Symbol.asyncDispose]() {
      const ended = pool.end();
      if (opts.pool === "sums") for (const client of busy) void client.end().catch(() => undefined);
      await ended;
    },
  };
}
