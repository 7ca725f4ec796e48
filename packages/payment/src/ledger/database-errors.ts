import { AppError, isAppError } from "@turnpike/base";

/** SQLSTATE of our own triggers: a change that is not allowed. */
const ILLEGAL = "TP001";
/** SQLSTATE of our own triggers: a table that only grows. */
const APPEND_ONLY = "TP002";

// Classes and codes by which the database says that it cannot work now; see the PostgreSQL manual, appendix A.
const UNAVAILABLE_CLASSES = new Set(["08", "28", "53", "57", "58"]);
const UNAVAILABLE_CODES = new Set(["40001", "40P01", "55P03", "25006", "3D000"]);
/** Tables, columns or functions that are not there. */
const SCHEMA_CODES = new Set(["3F000", "42P01", "42703", "42883"]);
/** Tables or functions that this role may not use. */
const FORBIDDEN = "42501";

function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("severity" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** What was being done when the database failed. */
export interface FailedCall {
  readonly method: string;
  /** True when the statement may have reached the database. */
  readonly sent: boolean;
  readonly writes: boolean;
}

/**
 * The coded error of what the driver threw. `detail.unknown` is true when a write may have been committed although no
 * answer came: read again before you do it again. `detail.sent` is false when a write did not reach the database.
 */
export function ledgerError(error: unknown, { method, sent, writes }: FailedCall): AppError {
  if (isAppError(error)) return error;
  const state = sqlState(error);
  const detail = {
    method,
    ...(state === undefined ? {} : { sqlState: state }),
    ...(writes && !sent ? { sent } : {}),
  };
  if (state === undefined) {
    return new AppError("LEDGER_UNAVAILABLE", { detail: { ...detail, unknown: sent && writes }, cause: error });
  }
  if (state === ILLEGAL || state === APPEND_ONLY) return new AppError("INTERNAL", { detail, cause: error });
  if (UNAVAILABLE_CLASSES.has(state.slice(0, 2)) || UNAVAILABLE_CODES.has(state)) {
    // 57014 cancels the statement: it has rolled back. Others end the session, perhaps after its commit.
    const ends = state !== "57014" && (state.startsWith("57") || state.startsWith("08"));
    return new AppError("LEDGER_UNAVAILABLE", { detail: { ...detail, unknown: ends && sent && writes }, cause: error });
  }
  if (state === FORBIDDEN) {
    const said = error instanceof Error ? error.message : "permission denied";
    return new AppError("LEDGER_SCHEMA", {
      message: `The ledger's database refuses ${method}: ${said}.`,
      advice: "Grant the role what docs/operate/ledger.md lists, as the owner of the tables.",
      detail,
      cause: error,
    });
  }
  if (SCHEMA_CODES.has(state)) {
    // For logs and the command line: the message may reach a client, who need not know the tables.
    const reason = error instanceof Error ? error.message : undefined;
    return new AppError("LEDGER_SCHEMA", {
      advice: "See npx turnpike db doctor.",
      detail: { ...detail, ...(reason === undefined ? {} : { reason }) },
      cause: error,
    });
  }
  return new AppError("INTERNAL", { detail, cause: error });
}

/** False only when the error says that the statement did not reach the database. */
export function mayBeSent(error: unknown): boolean {
  return !isAppError(error) || error.detail.sent !== false;
}

/** True when the connection can be used for another statement after this error. */
export function keepsConnection(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && state !== "57P01" && state !== "57P02" && state !== "57P03" && !state.startsWith("08");
}
