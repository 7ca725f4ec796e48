import { AppError, isAppError, thrownCode } from "@turnpike/base";
import pg from "pg";

const CONNECT_TIMEOUT_MS = 5_000;

/** What an operator can do something about; by the driver's code. */
const CAUSES: Readonly<Record<string, string>> = {
  ENOTFOUND: "no machine has this name (ENOTFOUND)",
  EAI_AGAIN: "the name could not be looked up (EAI_AGAIN)",
  ECONNREFUSED: "nothing listens there (ECONNREFUSED)",
  "28P01": "authentication failed; check user and password",
  "28000": "authentication failed; check user and pg_hba.conf",
  "3D000": "there is no database of this name",
  "57P03": "the server is starting or stopping",
  "53300": "the server takes no more connections",
};

/** Names host, port and cause, for who starts the program. */
function unreachable({ host, port }: pg.Client, error: unknown): AppError {
  const code = `${thrownCode(error) ?? "no answer"}`;
  return new AppError("PORTAL_DB_UNAVAILABLE", {
    message: `The management database at ${host}:${port} cannot be reached: ${CAUSES[code] ?? code}.`,
    detail: { host, port, code },
    cause: error,
  });
}

/** A connection outside the pool. A query without an answer in time fails. Throws AppError PORTAL_DB_UNAVAILABLE. */
export async function connect(url: string, name: string, queryTimeoutMs?: number): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    ...(queryTimeoutMs === undefined ? {} : { query_timeout: queryTimeoutMs }),
    application_name: `turnpike ${name}`,
  });
  // Heard, so that it does not end the process; the query under way fails by it.
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    throw unreachable(client, error);
  }
  return client;
}

/** One connection for work that is on the way of no request. */
export async function withClient<T>(
  url: string,
  name: string,
  work: (client: pg.Client) => Promise<T>,
  queryTimeoutMs?: number,
): Promise<T> {
  const client = await connect(url, name, queryTimeoutMs);
  try {
    return await work(client);
  } catch (error) {
    if (isAppError(error) || error instanceof pg.DatabaseError) throw error;
    throw new AppError("PORTAL_DB_UNAVAILABLE", { cause: error });
  } finally {
    await client.end().catch(() => undefined);
  }
}
