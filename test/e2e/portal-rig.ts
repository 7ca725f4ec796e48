import { randomBytes } from "node:crypto";
import { type Log, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { startPostgres } from "@turnpike/localnet";
import {
  migratePortalDb,
  mintToken,
  type PortalDb,
  type PortalDbOptions,
  startPortalDb,
  type TokenKeyOptions,
} from "@turnpike/portal-db";
import pg from "pg";

/** The account that every database has from the start. */
export const FIXTURE = "10000000-0000-0000-0000-000000000004";

/** A served management database. */
export interface PortalRig extends AsyncDisposable {
  readonly url: string;
  readonly portal: PortalDb;
  readonly ownerUrl: string;
  readonly databaseUrl: string;
  readonly key: TokenKeyOptions;
  /** Options of the server, for a test that wants another. */
  readonly options: PortalDbOptions;
  token(role: "reader" | "admin", accountId?: string): Promise<string>;
  /** Runs SQL as the owner would, behind the API's back. */
  sql<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
  /** A request with a token; the body is parsed where it is JSON. */
  call(target: string, init?: CallInit): Promise<Called>;
}

export interface CallInit {
  readonly as?: "reader" | "admin" | "nobody";
  readonly token?: string;
  readonly method?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Called {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: an answer is whatever it is
  readonly body: any;
}

/** A PostgreSQL for one test file: DATABASE_URL where it is given, with a database of its own. */
async function openDatabase(stack: AsyncDisposableStack): Promise<string> {
  const given = process.env.DATABASE_URL;
  if (given === undefined || given === "") {
    const server = stack.use(await startPostgres());
    return server.createDatabase("portal");
  }
  const name = `turnpike_test_${randomBytes(6).toString("hex")}`;
  const admin = new pg.Client({ connectionString: given });
  await admin.connect();
  await admin.query(`create database ${name}`);
  stack.defer(async () => {
    await admin.query(`drop database ${name} with (force)`);
    await admin.end();
  });
  const url = new URL(given);
  url.pathname = `/${name}`;
  return url.href;
}

/** Starts everything on free ports. */
export async function startPortalRig(
  over: Partial<PortalDbOptions> = {},
  modules: { readonly log?: Log } = {},
): Promise<PortalRig> {
  await using stack = new AsyncDisposableStack();
  const ownerUrl = await openDatabase(stack);
  const password = "authenticator of the tests";
  await migratePortalDb({ url: ownerUrl, authenticatorPassword: password }, { log: silentLog });
  const authenticator = new URL(ownerUrl);
  authenticator.username = "portal_authenticator";
  authenticator.password = password;
  const key: TokenKeyOptions = { kid: undefined, algorithm: "HS256", material: randomBytes(32).toString("hex") };
  const options: PortalDbOptions = {
    host: "127.0.0.1",
    port: 0,
    databaseUrl: authenticator.href,
    poolSize: 4,
    maxRows: 1_000,
    maxBodyBytes: 262_144,
    maxHeaderBytes: 65_536,
    requestTimeoutMs: 10_000,
    statementTimeoutMs: { reader: 5_000, admin: 10_000 },
    lockTimeoutMs: 2_000,
    connectTimeoutMs: 5_000,
    maxConnections: 1_000,
    maxInFlight: 256,
    corsOrigins: ["*"],
    perTokenPerSecond: 100_000,
    refusedPerAddressPerSecond: 100_000,
    revealCreatedHash: false,
    auditDays: 365,
    keys: [key],
    audience: "postgrest",
    maxLifetimeSeconds: 86_400,
    ...over,
  };
  const portal = stack.use(
    await startPortalDb(options, { clock: systemClock, log: modules.log ?? silentLog, metrics: noMetrics }),
  );
  const owner = new pg.Client({ connectionString: ownerUrl, options: "-c search_path=portal" });
  await owner.connect();
  stack.defer(() => owner.end());
  const token = async (role: "reader" | "admin", accountId?: string): Promise<string> => {
    const made = await mintToken(
      { role, accountId, lifetimeSeconds: 3_600, audience: "postgrest", key },
      { clock: systemClock },
    );
    return made.token;
  };
  const tokens = { reader: await token("reader"), admin: await token("admin"), nobody: undefined };
  const owned = stack.move();
  return {
    url: portal.url,
    portal,
    ownerUrl,
    databaseUrl: options.databaseUrl,
    key,
    options,
    token,
    sql: async <Row extends object>(text: string, values: readonly unknown[] = []) =>
      (await owner.query<Row>(text, [...values])).rows,
    async call(target, init = {}) {
      const bearer = init.token ?? tokens[init.as ?? "reader"];
      const isText = typeof init.body === "string";
      const answer = await fetch(`${portal.url}${target}`, {
        method: init.method ?? "GET",
        ...(init.body === undefined ? {} : { body: isText ? String(init.body) : JSON.stringify(init.body) }),
        headers: {
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
          ...(init.body === undefined || isText ? {} : { "content-type": "application/json" }),
          ...init.headers,
        },
      });
      const text = await answer.text();
      const isJson = answer.headers.get("content-type")?.includes("json") === true && text !== "";
      return { status: answer.status, headers: answer.headers, text, body: isJson ? JSON.parse(text) : undefined };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
