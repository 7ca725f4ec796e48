import { AppError, thrownCode } from "@turnpike/base";
import pg from "pg";
import type { Caller } from "../types.ts";
import { isVerifierOf, scramVerifier } from "./scram.ts";

/** The database's role of each caller. Nothing else is ever switched to. */
export const ROLE_NAMES: Readonly<Record<Caller["role"], string>> = {
  anon: "portal_anon",
  reader: "portal_reader",
  admin: "portal_admin",
};

/** The role that the API connects as: it may become those of {@link ROLE_NAMES}, and has no rights on rows itself. */
export const AUTHENTICATOR = "portal_authenticator";

/** The role that the gateway connects as. */
export const GATEWAY = "portal_gateway";

const LOGIN = "login noinherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls";
const NO_LOGIN = "nologin noinherit nosuperuser nocreatedb nocreaterole noreplication nobypassrls";

// Roles are of the whole cluster, and an advisory lock is of one database: migrations of two databases meet here. Who
// comes second finds the role there (23505, 42710), or its row changed under way (XX000), and looks again.
const perform = (test: string, action: string): string => `
  do $$
  begin
    for attempt in 1 .. 20 loop
      begin
        if ${test} then
          ${action};
        end if;
        return;
      exception
        when unique_violation or duplicate_object then null;
        when internal_error then
          if attempt = 20 then raise; end if;
      end;
    end loop;
  end
  $$`;

const create = (name: string, attributes: string): string =>
  perform(`not exists (select from pg_roles where rolname = '${name}')`, `create role ${name} ${attributes}`);

const grant = (name: string): string =>
  perform(
    `not exists (
      select from pg_auth_members
      where roleid = '${name}'::regrole and member = '${AUTHENTICATOR}'::regrole
    )`,
    `grant ${name} to ${AUTHENTICATOR}`,
  );

interface MissingRoles {
  readonly role: string;
  /** The role is a superuser or has CREATEROLE. */
  readonly may_create: boolean;
  /** Roles that are not there. */
  readonly roles: readonly string[];
  /** Roles that the authenticator cannot become. */
  readonly memberships: readonly string[];
  /** Memberships that the role may not grant: CREATEROLE is enough up to PostgreSQL 15 only. */
  readonly ungrantable: readonly string[];
}

const MISSING = `
  with wanted as (
    select name, place, (select oid from pg_catalog.pg_roles where rolname = name) as oid
    from unnest($1::text[]) with ordinality w (name, place)
  ), memberships as (
    select name, oid, place from wanted where name = any ($2) and not exists (
      select from pg_catalog.pg_auth_members m join pg_catalog.pg_roles a on a.oid = m.member
      where m.roleid = wanted.oid and a.rolname = $3
    )
  )
  select r.rolname::text as role, r.rolsuper or r.rolcreaterole as may_create,
    array(select name from wanted where oid is null order by place) as roles,
    array(select name from memberships order by place) as memberships,
    array(select name from memberships where oid is not null and not r.rolsuper
      and not pg_has_role(r.oid, oid, 'member with admin option')
      and current_setting('server_version_num')::integer >= 160000 order by place) as ungrantable
  from pg_catalog.pg_roles r where r.rolname = current_user`;

/**
 * Holds that the connection's role may make the roles that are missing.
 * @throws AppError PORTAL_DB_SCHEMA with the statements that a superuser has to run
 */
async function assertMayMakeRoles(client: pg.Client): Promise<void> {
  const capable = Object.values(ROLE_NAMES);
  const names = [AUTHENTICATOR, GATEWAY, ...capable];
  const { rows } = await client.query<MissingRoles>(MISSING, [names, capable, AUTHENTICATOR]);
  const [missing] = rows;
  if (missing === undefined || (missing.roles.length === 0 && missing.memberships.length === 0)) return;
  const { role, roles, memberships } = missing;
  if (missing.may_create && missing.ungrantable.length === 0) return;
  const statements = [
    ...roles.map((name) => `create role ${name} ${capable.includes(name) ? "nologin" : "login"} noinherit;`),
    ...memberships.map((name) => `grant ${name} to ${AUTHENTICATOR};`),
  ];
  const what = roles.length > 0 ? `make the roles ${roles.join(", ")}` : `grant ${memberships.join(", ")} to others`;
  throw new AppError("PORTAL_DB_SCHEMA", {
    message:
      `The role ${role} may not ${what}, which the management data needs. As a superuser run: ` +
      `${statements.join(" ")}${roles.length > 0 && !missing.may_create ? ` Or run: alter role ${pg.escapeIdentifier(role)} createrole;` : ""}`,
    advice:
      "Then run `npx turnpike db migrate` again. Roles that a superuser made need a password from it too: docs/manage.md.",
  });
}

/**
 * Makes the roles that are missing. Safe to repeat, also for several databases of one cluster at once.
 * @throws AppError PORTAL_DB_SCHEMA when the connection's role may not make them
 */
export async function makeRoles(client: pg.Client): Promise<void> {
  await assertMayMakeRoles(client);
  await client.query(create(AUTHENTICATOR, LOGIN));
  await client.query(create(GATEWAY, LOGIN));
  for (const name of Object.values(ROLE_NAMES)) {
    await client.query(create(name, NO_LOGIN));
    await client.query(grant(name));
  }
}

interface RiskyRole {
  readonly name: string;
  readonly attributes: readonly string[];
  readonly groups: readonly string[];
}

// `usage`: the authenticator has the rights of its roles before it has become one of them.
const RISKY = `
  select r.rolname as name, a.attributes, g.groups
  from pg_catalog.pg_roles r
  cross join lateral (select array_remove(array[
    case when r.rolsuper then 'SUPERUSER' end, case when r.rolbypassrls then 'BYPASSRLS' end,
    case when r.rolcreaterole then 'CREATEROLE' end, case when r.rolcreatedb then 'CREATEDB' end,
    case when r.rolreplication then 'REPLICATION' end,
    case when r.rolcanlogin and r.rolname = any ($1) then 'LOGIN' end,
    case when r.rolname = $2 and exists (
      select from pg_catalog.pg_roles o where o.rolname = any ($1) and pg_has_role(r.oid, o.oid, 'usage')
    ) then 'INHERIT' end
  ], null) as attributes) a
  cross join lateral (select array(
    select g.rolname::text from pg_catalog.pg_auth_members m join pg_catalog.pg_roles g on g.oid = m.roleid
    where m.member = r.oid and not (r.rolname = $2 and g.rolname = any ($1)) order by 1
  ) as groups) g
  where (r.rolname = any ($1) or r.rolname in ($2, $3)) and (cardinality(a.attributes) > 0 or cardinality(g.groups) > 0)
  order by r.rolname`;

/**
 * Roles belong to the cluster: one of these names may have been there before, with rights that no policy can hold.
 * Throws AppError PORTAL_DB_SCHEMA that names them and what to do.
 */
export async function checkRoles(client: pg.Client): Promise<void> {
  const { rows } = await client.query<RiskyRole>(RISKY, [Object.values(ROLE_NAMES), AUTHENTICATOR, GATEWAY]);
  if (rows.length === 0) return;
  const faults = rows.map(({ name, attributes, groups }) => {
    const which = [...attributes, ...groups.map((group) => `member of ${group}`)].join(", ");
    const without = attributes.map((attribute) => `NO${attribute}`).join(" ");
    const cures = [
      ...(without === "" ? [] : [`ALTER ROLE ${name} ${without};`]),
      ...groups.map((group) => `REVOKE ${pg.escapeIdentifier(group)} FROM ${name};`),
    ];
    return `${name} (${which}): ${cures.join(" ")}`;
  });
  throw new AppError("PORTAL_DB_SCHEMA", {
    message: `Roles of the management data may do too much. As a superuser: ${faults.join(" ")}`,
  });
}

/** SQLSTATE of a statement that the role has no right to. */
const DENIED = "42501";

/**
 * Sets the password of a role, unless it is the one already. `logsIn` returns whether it is: only a superuser can read that.
 * @throws AppError PORTAL_DB_SCHEMA when the connection's role may not set it
 */
export async function setPassword(
  client: pg.Client,
  name: typeof AUTHENTICATOR | typeof GATEWAY,
  password: string,
  logsIn: () => Promise<boolean>,
): Promise<void> {
  const verifier = scramVerifier(password);
  const may = await client.query<{ may: boolean }>(
    "select has_table_privilege('pg_catalog.pg_authid', 'select') as may",
  );
  if (may.rows[0]?.may === true) {
    const kept = await client.query<{ verifier: string | null }>(
      "select rolpassword as verifier from pg_authid where rolname = $1",
      [name],
    );
    if (isVerifierOf(kept.rows[0]?.verifier ?? "", password)) return;
  }
  await client.query("savepoint password");
  try {
    await client.query(perform("true", `alter role ${name} password ${client.escapeLiteral(verifier)}`));
  } catch (error) {
    if (thrownCode(error) !== DENIED) throw error;
    await client.query("rollback to savepoint password");
    if (await logsIn()) return;
    const { rows } = await client.query<{ role: string }>("select current_user::text as role");
    const role = rows[0]?.role ?? "";
    const owner = pg.escapeIdentifier(role);
    throw new AppError("PORTAL_DB_SCHEMA", {
      message:
        `The role ${role} may not set the password of ${name}, and the one of the configuration is not it. As a superuser ` +
        `set it (in psql: \\password ${name}), or run: alter role ${owner} createrole; grant ${name} to ${owner} with admin option;`,
      advice: "Then run `npx turnpike db migrate` again.",
      cause: error,
    });
  }
}
