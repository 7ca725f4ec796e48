import { type AppError, thrownCode } from "@turnpike/base";
import pg from "pg";

const CONNECT_TIMEOUT_MS = 5_000;

/** Causes that an operator can do something about, by the driver's code. */
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

export interface ConnectionOptions {
  readonly url: string;
  /** What the connection is for, in the server's `application_name`. */
  readonly purpose: string;
  /** 5,000 by default. */
  readonly connectTimeoutMs?: number | undefined;
  /** A query without an answer in this time fails; undefined waits without end. */
  readonly queryTimeoutMs?: number | undefined;
  /** The error that is thrown when there is no connection. `reason` names host, port and cause, never the password. */
  readonly unreachable: (
    reason: string,
    detail: { readonly host: string; readonly port: number; readonly code: string },
    cause: unknown,
  ) => AppError;
}

/** Opens a connection outside any pool. Throws what `unreachable` makes of the driver's error. */
export async function connect(opts: ConnectionOptions): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: opts.url,
    connectionTimeoutMillis: opts.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    keepAlive: true,
    ...(opts.queryTimeoutMs === undefined ? {} : { query_timeout: opts.queryTimeoutMs }),
    application_name: `turnpike ${opts.purpose}`,
  });
  // Without a listener a lost connection would end the process; the query under way fails by it all the same.
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    const { host, port } = client;
    const code = `${thrownCode(error) ?? "no answer"}`;
    throw opts.unreachable(`${host}:${port} cannot be reached: ${CAUSES[code] ?? code}.`, { host, port, code }, error);
  }
  return client;
}

/** Opens one connection for `work` and closes it afterwards. Throws as {@link connect} does, and what `work` throws. */
export async function withConnection<T>(opts: ConnectionOptions, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connect(opts);
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
