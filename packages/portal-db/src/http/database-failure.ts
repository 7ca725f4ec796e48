import { isAppError } from "@turnpike/base";
import type { ErrorBody } from "../errors.ts";
import { failure, TOO_LARGE } from "../failures.ts";
import { TOO_LARGE_SETTING } from "../sql/bounds.ts";

/** Fields of an error that the database itself reported. */
interface Reported {
  readonly code: string;
  readonly message: string;
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  /** Table that it is about; of a foreign key, the one that refers. */
  readonly table: string | undefined;
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** The database's own report in an error, or in what caused it. */
function reportedIn(error: unknown): Reported | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++) {
    const { code, severity, detail, hint, table } = at as Error & Readonly<Record<string, unknown>>;
    // `severity` is of reports only: the driver's own errors have codes of five letters too (EPIPE).
    if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && severity !== undefined) {
      return { code, message: at.message, detail: textOf(detail), hint: textOf(hint), table: textOf(table) };
    }
  }
  return undefined;
}

const EXACT: Readonly<Record<string, number>> = {
  "23503": 409,
  "23505": 409,
  "42501": 403,
  "42P01": 404,
  "25006": 405,
  "21000": 400,
  "57P01": 503,
  P0001: 400,
};

/** HTTP status of an SQLSTATE, per PostgREST. */
export function statusOf(code: string): number {
  const exact = EXACT[code];
  if (exact !== undefined) return exact;
  const custom = /^PT([1-5]\d\d)$/.exec(code)?.[1];
  if (custom !== undefined) return Math.max(400, Number(custom));
  switch (code.slice(0, 2)) {
    case "08":
    case "53":
      return 503;
    case "09":
    case "25":
    case "2D":
    case "38":
    case "39":
    case "3B":
    case "40":
    case "54":
    case "55":
    case "57":
    case "58":
    case "F0":
    case "HV":
    case "P0":
    case "XX":
      return 500;
    case "0L":
    case "0P":
    case "28":
      return 403;
    default:
      return 400;
  }
}

/** Errors whose details name keys that the client itself has sent. All others may show rows or names of the schema. */
const KEY_ERRORS = new Set(["23503", "23505", "23P01"]);
/** Errors that our own triggers raise, with words that are made for clients. */
const OURS = /^(PT\d{3}|P0001|23514|23503|22023|42501)$/;

/**
 * The error that a client gets for a failed statement: the SQLSTATE and the message; details and hint only where they
 * hold nothing but what was sent. A failure of ours says no more than that. A table that `isSeen` does not know is not
 * named: it may be one that refers to the row that is deleted.
 */
export function databaseFailure(error: unknown, isSeen: (table: string) => boolean = () => true): ErrorBody {
  const reported = reportedIn(error);
  if (reported === undefined) {
    if (isAppError(error) && /UNAVAILABLE|OVERLOADED|NOT_READY/.test(error.code)) {
      return failure(503, "PGRST001", "The database cannot be reached", null, "Try again later");
    }
    return connectionFailure(error) ?? failure(500, "PGRSTX00", "Something failed on our side");
  }
  const { code, message, detail, hint, table } = reported;
  if (code === "42704" && message.includes(TOO_LARGE_SETTING)) return TOO_LARGE;
  const status = statusOf(code);
  if (code === "57014") return failure(500, code, "The statement took too long and was ended");
  if (status === 503) return failure(503, code, "The database takes no requests now", null, "Try again later");
  if (status >= 500) return failure(status, code, "The statement failed");
  if (code === "23503" && table !== undefined && !isSeen(table)) {
    return failure(status, code, "Another row refers to this one by a foreign key");
  }
  const details = KEY_ERRORS.has(code) && detail !== undefined && !detail.startsWith("Failing row") ? detail : null;
  return failure(status, code, message, details, OURS.test(code) ? (hint ?? null) : null);
}

function connectionFailure(error: unknown): ErrorBody | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++) {
    const { code } = at as Error & Readonly<Record<string, unknown>>;
    if (/timeout exceeded when trying to connect/i.test(at.message)) {
      return failure(504, "PGRST003", "Timed out acquiring connection from connection pool");
    }
    if (/Connection terminated|ended by|not queryable/i.test(at.message) || /^E[A-Z_]{3,}$/.test(textOf(code) ?? "")) {
      return failure(503, "PGRST001", "The database cannot be reached", null, "Try again later");
    }
  }
  return undefined;
}
