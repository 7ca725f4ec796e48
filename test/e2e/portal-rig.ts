import { randomBytes } from "node:crypto";
import { type Clock, type Log, noMetrics, silentLog, systemClock } from "@turnpike/base";
import {
  migratePortalDb,
  mintToken,
  type PortalDb,
  type PortalDbOptions,
  startPortalDb,
  type TokenKeyOptions,
} from "@turnpike/portal-db";
import { openTestPostgres, superuserUrl } from "@turnpike/testkit/servers";
import pg from "pg";
import { GATEWAY_PASSWORD, PASSWORD } from "../../packages/portal-db/test/database-fixtures.ts";

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
  /** Runs SQL on the same database as a superuser, on another connection. */
  superuserSql<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
  /** A request with a token; the body is parsed where it is JSON. */
  call(target: string, init?: CallInit): Promise<Called>;
}

export interface CallInit {
  /** URL of another server of the same database. */
  readonly at?: string;
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

/** Of the roles that portals connect as. Roles belong to the whole server, so all test files have to use these. */
export const PORTAL_PASSWORDS = {
  authenticator: PASSWORD,
  gateway: GATEWAY_PASSWORD,
} as const;

/** Starts everything on free ports. */
export async function startPortalRig(
  over: Partial<PortalDbOptions> = {},
  modules: { readonly log?: Log; readonly clock?: Clock } = {},
): Promise<PortalRig> {
  const { log = silentLog, clock = systemClock } = modules;
  await using stack = new AsyncDisposableStack();
  const { url: ownerUrl } = stack.use(await openTestPostgres({ createsRoles: true }));
  const password = PORTAL_PASSWORDS.authenticator;
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
    // None of these is reached on a busy machine.
    requestTimeoutMs: 60_000,
    statementTimeoutMs: { reader: 60_000, admin: 60_000 },
    lockTimeoutMs: 60_000,
    connectTimeoutMs: 60_000,
    maxConnections: 1_000,
    maxInFlight: 256,
    maxInFlightPerToken: 256,
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
  const portal = stack.use(await startPortalDb(options, { clock, log, metrics: noMetrics }));
  const owner = new pg.Client({ connectionString: ownerUrl, options: "-c search_path=portal" });
  await owner.connect();
  stack.defer(() => owner.end());
  const superuser = new pg.Client({ connectionString: superuserUrl(ownerUrl), options: "-c search_path=portal" });
  await superuser.connect();
  stack.defer(() => superuser.end());
  const token = async (role: "reader" | "admin", accountId?: string): Promise<string> => {
    const made = await mintToken({ role, accountId, lifetimeSeconds: 3_600, audience: "postgrest", key }, { clock });
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
    superuserSql: async <Row extends object>(text: string, values: readonly unknown[] = []) =>
      (await superuser.query<Row>(text, [...values])).rows,
    async call(target, init = {}) {
      const bearer = init.token ?? tokens[init.as ?? "reader"];
      const isText = typeof init.body === "string";
      const answer = await fetch(`${init.at ?? portal.url}${target}`, {
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
