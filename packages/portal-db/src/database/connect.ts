import { AppError, isAppError } from "@turnpike/base";
import { type ConnectionOptions, connect as connectTo, withConnection } from "@turnpike/postgres";
import pg from "pg";

const optionsFor = (url: string, purpose: string, queryTimeoutMs?: number): ConnectionOptions => ({
  url,
  purpose,
  queryTimeoutMs,
  unreachable: (reason, detail, cause) =>
    new AppError("PORTAL_DB_UNAVAILABLE", { message: `The management database at ${reason}`, detail, cause }),
});

/** A connection outside the pool. A query without an answer in time fails. Throws AppError PORTAL_DB_UNAVAILABLE. */
export async function connect(url: string, purpose: string, queryTimeoutMs?: number): Promise<pg.Client> {
  return connectTo(optionsFor(url, purpose, queryTimeoutMs));
}

/** One connection for work outside requests. Throws AppError PORTAL_DB_UNAVAILABLE, and pg.DatabaseError. */
export async function withClient<T>(
  url: string,
  purpose: string,
  work: (client: pg.Client) => Promise<T>,
  queryTimeoutMs?: number,
): Promise<T> {
  try {
    return await withConnection(optionsFor(url, purpose, queryTimeoutMs), work);
  } catch (error) {
    if (isAppError(error) || error instanceof pg.DatabaseError) throw error;
    throw new AppError("PORTAL_DB_UNAVAILABLE", { cause: error });
  }
}
