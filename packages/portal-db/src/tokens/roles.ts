import type { Caller } from "../types.ts";

/** Role claims that are taken: the short names, and the long ones of the system that this stands in for. */
const ROLES: ReadonlyMap<string, Caller["role"]> = new Map([
  ["reader", "reader"],
  ["admin", "admin"],
  ["portal_db_reader", "reader"],
  ["portal_db_admin", "admin"],
]);

/** The role of a claim; undefined for everything that is not on the list, whatever roles the database has. */
export function roleOf(claim: unknown): Caller["role"] | undefined {
  return typeof claim === "string" ? ROLES.get(claim) : undefined;
}

/** Spelling of an account's id in a claim. */
export const ACCOUNT_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
