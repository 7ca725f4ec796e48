import { AppError } from "@turnpike/base";
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

/** Makes the roles that are missing. Safe to repeat, also for several databases of one cluster at once. */
export async function makeRoles(client: pg.Client): Promise<void> {
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

/** Sets the password of a role, unless it is the one already. */
export async function setPassword(
  client: pg.Client,
  name: typeof AUTHENTICATOR | typeof GATEWAY,
  password: string,
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
  await client.query(perform("true", `alter role ${name} password ${client.escapeLiteral(verifier)}`));
}
