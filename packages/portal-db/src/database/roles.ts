import type pg from "pg";
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
