import { AppError, isAppError, type Log } from "@turnpike/base";
import { Migrations, type SchemaObjects } from "@turnpike/postgres";
import type pg from "pg";
import { withClient } from "./connect.ts";
import { AUTHENTICATOR, checkRoles, GATEWAY, makeRoles, ROLE_NAMES, setPassword } from "./roles.ts";

const WRONG_PASSWORD = new Set(["28P01", "28000"]);
const CHECK_TIMEOUT_MS = 10_000;
const RESTORE =
  "make the portal_… roles, then restore the backup into an empty database, ending at the first fault: docs/operate/ledger.md";

const MIGRATIONS = new Migrations({
  folder: new URL("../../migrations/", import.meta.url),
  schemas: ["portal", "portal_private"],
  lock: "turnpike migrate portal",
  title: "The management tables",
  code: "PORTAL_DB_SCHEMA",
  grantees: [AUTHENTICATOR, GATEWAY, ...Object.values(ROLE_NAMES)],
  optionalGrantees: Object.values(ROLE_NAMES),
});

export interface MigratePortalDbOptions {
  /** URL of a role that may create schemas, and roles where those of the API are missing; it will own what is made. */
  readonly url: string;
  /** Sets the password of `portal_authenticator`; undefined leaves it as it is. Printable ASCII; never logged. */
  readonly authenticatorPassword?: string | undefined;
  /** Sets the password of `portal_gateway`; undefined leaves it as it is. Printable ASCII; never logged. */
  readonly gatewayPassword?: string | undefined;
  /**
   * True: a password that others use at this moment is not replaced (ALREADY_RUNNING). For what makes its own passwords
   * at each start; false, the default, is for changing a password under a running server.
   */
  readonly keepsUsedPasswords?: boolean | undefined;
}

/** What {@link migratePortalDb} did. */
export interface MigratePortalDbResult {
  /** Names of the migrations that this call applied, in order; empty when there was nothing to do. */
  readonly applied: readonly string[];
}

/** True when a role logs in to the owner's database by this password. */
async function logsIn(ownerUrl: string, name: string, password: string): Promise<boolean> {
  const url = new URL(ownerUrl);
  url.username = name;
  // The setter of a URL does not escape a percent sign.
  url.password = encodeURIComponent(password);
  try {
    await withClient(url.href, "check", async () => undefined);
    return true;
  } catch (error) {
    if (isAppError(error) && WRONG_PASSWORD.has(String(error.detail.code))) return false;
    throw error;
  }
}

/** Roles are of the whole cluster: throws ALREADY_RUNNING where one is logged in now, and by another password. */
async function refuseUsedRole(client: pg.Client, ownerUrl: string, name: string, password: string): Promise<void> {
  const used = await client.query("select from pg_catalog.pg_stat_activity where usename = $1 limit 1", [name]);
  if (used.rowCount === 0 || (await logsIn(ownerUrl, name, password))) return;
  throw new AppError("ALREADY_RUNNING", {
    message:
      `The role ${name} is in use on this PostgreSQL with another password: another \`turnpike up\`, or a ` +
      "`turnpike db`, runs on it. Roles belong to the whole server, so each needs a PostgreSQL of its own. " +
      "End the other one, or name another server.",
  });
}

/**
 * Makes or updates the tables of the management data API in the schemas `portal` and `portal_private`, and the roles
 * of the cluster that it needs; all or nothing. Any number of processes may do it at once, also on several databases of
 * one cluster. Throws AppError PORTAL_DB_SCHEMA when the database is newer than the code or was made by other
 * migrations, when a role was there before and may do too much, or when the role of the URL lacks a right, with the grant
 * to run; CONFIG_INVALID for a password that cannot be set; and PORTAL_DB_UNAVAILABLE when it cannot be reached.
 */
export async function migratePortalDb(
  opts: MigratePortalDbOptions,
  { log }: { readonly log: Log },
): Promise<MigratePortalDbResult> {
  const prepareRoles = async (client: pg.Client): Promise<void> => {
    await makeRoles(client);
    await checkRoles(client);
    const { authenticatorPassword, gatewayPassword } = opts;
    for (const [name, password] of [
      [AUTHENTICATOR, authenticatorPassword],
      [GATEWAY, gatewayPassword],
    ] as const) {
      if (password === undefined) continue;
      if (opts.keepsUsedPasswords === true) await refuseUsedRole(client, opts.url, name, password);
      await setPassword(client, name, password, () => logsIn(opts.url, name, password));
    }
  };
  const applied = await withClient(opts.url, "migrate", (client) =>
    MIGRATIONS.apply(client, () => prepareRoles(client)),
  );
  log.info({ applied }, applied.length === 0 ? "the management tables are up to date" : "migrated");
  return { applied };
}

/** Definitions of what the migrations make: what `schema.json` beside them has. The database stays as it is. */
export function portalObjects(url: string): Promise<SchemaObjects> {
  return withClient(url, "schema", (client) => MIGRATIONS.define(client, () => makeRoles(client)));
}

/** Something that the management data lacks, and what to do about it. */
export interface PortalDbFault {
  readonly kind: "version" | "missing" | "different";
  /** The object's name, or a sentence. */
  readonly what: string;
  readonly cure: string;
}

/**
 * Compares the management data with what its migrations make. The URL may be the owner's or that of `portal_authenticator`.
 * Empty when all is well. Throws AppError PORTAL_DB_UNAVAILABLE.
 */
export async function inspectPortalDb(url: string): Promise<readonly PortalDbFault[]> {
  const work = async (client: pg.Client): Promise<readonly PortalDbFault[]> => {
    try {
      await MIGRATIONS.assertVersion(client);
      await checkRoles(client);
    } catch (error) {
      if (!isAppError(error, "PORTAL_DB_SCHEMA")) throw error;
      return [{ kind: "version", what: error.message, cure: error.advice ?? "run `npx turnpike db migrate`" }];
    }
    const faults = await MIGRATIONS.faults(client);
    return faults.map(({ object, fault }) => ({ kind: fault, what: object, cure: RESTORE }));
  };
  return withClient(url, "doctor", work, CHECK_TIMEOUT_MS);
}

/**
 * Throws AppError PORTAL_DB_SCHEMA unless the tables are exactly those of this version and no role of theirs may do too
 * much, and PORTAL_DB_UNAVAILABLE. The URL may be the owner's or that of `portal_authenticator`.
 */
export async function checkPortalDb(url: string): Promise<void> {
  const check = async (client: pg.Client): Promise<void> => {
    await MIGRATIONS.assertApplied(client);
    await checkRoles(client);
  };
  await withClient(url, "check", check, CHECK_TIMEOUT_MS);
}
