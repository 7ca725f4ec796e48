import { AppError } from "@turnpike/base";
import pg from "pg";
import type { Caller } from "../types.ts";
import { ROLE_NAMES } from "./roles.ts";

const MAX_CLAIMS_BYTES = 8_192;
// Escapes that PostgreSQL's JSON cannot read: a zero character, and halves of characters.
const UNREADABLE = /\\u(?:0000|d[89a-f][0-9a-f]{2})/i;

/** What a transaction is begun with. */
export interface TransactionSettings {
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  readonly isWrite: boolean;
  readonly showsDeleted: boolean;
}

/** The claims as the database reads them. Throws AppError INTERNAL where they disagree with the caller. */
function claimsText({ role, accountId, tokenId, claims }: Caller): string {
  if ((claims.account_id ?? undefined) !== accountId) {
    throw new AppError("INTERNAL", { message: "The claims name another account than the caller." });
  }
  // The caller's members are what was checked: they stand, whatever the token spells them like.
  const text = JSON.stringify({ ...claims, role, account_id: accountId, jti: tokenId });
  if (Buffer.byteLength(text) > MAX_CLAIMS_BYTES || UNREADABLE.test(text)) {
    throw new AppError("MALFORMED_REQUEST", { message: "The token's claims are too large or hold unreadable text." });
  }
  return text;
}

const milliseconds = (value: number): number => {
  if (!Number.isSafeInteger(value) || value < 1 || value > 2_147_483_647) {
    throw new AppError("INTERNAL", { message: "A time-out of the database must be a whole number of milliseconds." });
  }
  return value;
};

/**
 * The statements that begin a caller's transaction, as one message. Roles come from a fixed table, times are whole
 * numbers, and the claims are a quoted literal. All settings end with the transaction.
 */
export function beginText(caller: Caller, settings: TransactionSettings): string {
  const role = Object.hasOwn(ROLE_NAMES, caller.role) ? ROLE_NAMES[caller.role] : undefined;
  if (role === undefined) throw new AppError("INTERNAL", { message: "There is no such role." });
  return (
    `begin isolation level read committed, ${settings.isWrite ? "read write" : "read only"};` +
    `set local role ${role};` +
    "set local search_path=portal,pg_temp;" +
    `set local statement_timeout=${milliseconds(settings.statementTimeoutMs)};` +
    `set local lock_timeout=${milliseconds(settings.lockTimeoutMs)};` +
    (settings.showsDeleted ? "set local request.deleted='shown';" : "") +
    `set local request.jwt.claims=${pg.escapeLiteral(claimsText(caller))}`
  );
}
