import { AppError, isAppError } from "@turnpike/base";
import { withConnection } from "@turnpike/postgres";
import type pg from "pg";
import { ledgerError } from "./database-errors.ts";

/** One connection for work that is not on the way of a payment. Errors come as those of the ledger. */
export async function withClient<T>(
  url: string,
  method: string,
  work: (client: pg.Client) => Promise<T>,
  connectTimeoutMs?: number,
  queryTimeoutMs?: number,
): Promise<T> {
  const call = { method, sent: false, writes: false };
  // Host, port and cause are for who starts the program: no payment comes by here.
  const unreachable = (reason: string, detail: object, cause: unknown): AppError => {
    const fault = ledgerError(cause, call);
    if (!isAppError(fault, "LEDGER_UNAVAILABLE")) return fault;
    return new AppError("LEDGER_UNAVAILABLE", {
      message: `The ledger at ${reason}`,
      detail: { ...fault.detail, ...detail },
      cause,
    });
  };
  try {
    return await withConnection({ url, purpose: method, connectTimeoutMs, queryTimeoutMs, unreachable }, work);
  } catch (error) {
    const fault = ledgerError(error, call);
    const { reason } = fault.detail;
    if (!isAppError(fault, "LEDGER_SCHEMA") || typeof reason !== "string") throw fault;
    const message = `The ledger's tables are not those of this version: ${reason}.`;
    throw new AppError("LEDGER_SCHEMA", { message, advice: fault.advice ?? "", detail: fault.detail, cause: error });
  }
}
