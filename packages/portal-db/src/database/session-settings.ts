import { AppError } from "@turnpike/base";
import pg from "pg";
import type { Caller } from "../types.ts";
import type { BatchStatement } from "./batch.ts";
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

/** Of callers that cannot change any more. */
const claimsTexts = new WeakMap<Caller, string>();

/** The claims as the database reads them. Throws AppError INTERNAL where they disagree with the caller. */
function claimsText(caller: Caller): string {
  const known = claimsTexts.get(caller);
  if (known !== undefined) return known;
  const text = makeClaimsText(caller);
  if (Object.isFrozen(caller) && Object.isFrozen(caller.claims)) claimsTexts.set(caller, text);
  return text;
}

function makeClaimsText({ role, accountId, tokenId, claims }: Caller): string {
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

function roleName({ role }: Caller): string {
  const name = Object.hasOwn(ROLE_NAMES, role) ? ROLE_NAMES[role] : undefined;
  if (name === undefined) throw new AppError("INTERNAL", { message: "There is no such role." });
  return name;
}

const SEARCH_PATH = "portal,pg_temp";

/**
 * The statements that begin a caller's transaction, as one message. Roles come from a fixed table, times are whole
 * numbers, and the claims are a quoted literal. All settings end with the transaction.
 */
export function beginText(caller: Caller, settings: TransactionSettings): string {
  return (
    `begin isolation level read committed, ${settings.isWrite ? "read write" : "read only"};` +
    `set local role ${roleName(caller)};` +
    `set local search_path=${SEARCH_PATH};` +
    `set local statement_timeout=${milliseconds(settings.statementTimeoutMs)};` +
    `set local lock_timeout=${milliseconds(settings.lockTimeoutMs)};` +
    (settings.showsDeleted ? "set local request.deleted='shown';" : "") +
    `set local request.jwt.claims=${pg.escapeLiteral(claimsText(caller))}`
  );
}

const SETTINGS =
  `set_config('role',$1,true),set_config('search_path','${SEARCH_PATH}',true),` +
  "set_config('statement_timeout',$2,true),set_config('lock_timeout',$3,true)," +
  "set_config('request.deleted',$4,true),set_config('request.jwt.claims',$5,true)";
/** Takes the settings on, in their order, and answers with a number instead of their texts. */
const WRITE_SETTINGS = `select num_nulls(${SETTINGS})`;
const READ_SETTINGS = `select num_nulls(${SETTINGS},set_config('transaction_read_only','on',true))`;

/** What stands before and after a request's statements in a {@link Batch}. */
export interface Frame {
  readonly before: readonly BatchStatement[];
  /** Empty, or a commit. */
  readonly after: readonly BatchStatement[];
}

const BEGIN: BatchStatement = {
  name: "portal_begin",
  text: "begin isolation level read committed, read write",
  values: [],
};
const COMMIT: BatchStatement = { name: "portal_commit", text: "commit", values: [] };

/**
 * The same for a transaction that is sent as one {@link Batch}. A read needs no statement to begin and end its
 * transaction; a write fixes its isolation, which what the database keeps true relies on, and so says when it begins.
 */
export function frameOf(caller: Caller, settings: TransactionSettings): Frame {
  const { isWrite, statementTimeoutMs, lockTimeoutMs, showsDeleted } = settings;
  const values = [
    roleName(caller),
    milliseconds(statementTimeoutMs),
    milliseconds(lockTimeoutMs),
    showsDeleted ? "shown" : "",
    claimsText(caller),
  ];
  if (isWrite) return { before: [BEGIN, { name: "portal_write", text: WRITE_SETTINGS, values }], after: [COMMIT] };
  return { before: [{ name: "portal_read", text: READ_SETTINGS, values }], after: [] };
}
