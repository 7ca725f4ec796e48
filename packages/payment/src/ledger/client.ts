import pg from "pg";
import { ledgerError } from "./database-errors.ts";

const CONNECT_TIMEOUT_MS = 5_000;

/** One connection for work that is not on the way of a payment. Errors come as those of the ledger. */
export async function withClient<T>(url: string, method: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: `turnpike ${method}`,
  });
  // Heard, so that it does not end the process; the query under way fails by it.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await work(client);
  } catch (error) {
    throw ledgerError(error, { method, sent: false, writes: false });
  } finally {
    await client.end().catch(() => undefined);
  }
}
