import { AppError, isAppError } from "@turnpike/base";
import pg from "pg";
import { ledgerError } from "./database-errors.ts";

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

/** Names host, port and cause: this is for who starts the program, and no payment comes by here. */
function unreachable({ host, port }: pg.Client, method: string, error: unknown): AppError {
  const fault = ledgerError(error, { method, sent: false, writes: false });
  if (!isAppError(fault, "LEDGER_UNAVAILABLE")) return fault;
  const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "no answer";
  return new AppError("LEDGER_UNAVAILABLE", {
    message: `The ledger at ${host}:${port} cannot be reached: ${CAUSES[code] ?? code}.`,
    detail: { ...fault.detail, host, port },
    cause: error,
  });
}

/** One connection for work that is not on the way of a payment. Errors come as those of the ledger. */
export async function withClient<T>(
  url: string,
  method: string,
  work: (client: pg.Client) => Promise<T>,
  connectTimeoutMs: number = CONNECT_TIMEOUT_MS,
  queryTimeoutMs?: number,
): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: connectTimeoutMs,
    ...(queryTimeoutMs === undefined ? {} : { query_timeout: queryTimeoutMs }),
    application_name: `turnpike ${method}`,
  });
  // Heard, so that it does not end the process; the query under way fails by it.
  client.on("error", () => undefined);
  try {
    await client.connect().catch((error: unknown) => {
      throw unreachable(client, method, error);
    });
    return await work(client);
  } catch (error) {
    throw ledgerError(error, { method, sent: false, writes: false });
  } finally {
    await client.end().catch(() => undefined);
  }
}
