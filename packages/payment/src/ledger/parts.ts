import { AppError, type FaultPoints, type Log, type Metrics } from "@turnpike/base";
import type { Database } from "./database.ts";
import type { Holder } from "./holder.ts";
import type { LedgerStatements } from "./statements.ts";

/** What the parts of the ledger share. */
export interface LedgerParts {
  readonly database: Pick<Database, "run">;
  readonly statements: LedgerStatements;
  readonly holder: Omit<Holder, typeof Symbol.asyncDispose>;
  /** Names of the receivers that the holder's row must have for a claim. */
  readonly sells: readonly string[];
  readonly answerRetentionMs: number;
  readonly releasedRetentionMs: number;
  /** Calls that may wait for the database; more are refused. */
  readonly queueLimit: number;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
}

/** Runs a committing call between its fault points, `ledger.<method>.before` and `ledger.<method>.after`. */
export async function committing<T>(faults: FaultPoints, method: string, work: () => Promise<T>): Promise<T> {
  await faults.reach(`ledger.${method}.before`);
  const result = await work();
  await faults.reach(`ledger.${method}.after`);
  return result;
}

/** The only row of a statement that always gives one. */
export function onlyRow<Row>(rows: readonly Row[], method: string): Row {
  const row = rows[0];
  if (row === undefined) throw new AppError("INTERNAL", { detail: { method, rows: rows.length } });
  return row;
}
