import type { Caller, Statement, TableRequest } from "../types.ts";
import { type AnswerResult, answerOf, type PlanRows } from "./answer.ts";
import type { PlannedRequest } from "./read-plans.ts";

/** How a request's transaction runs. */
export interface TransactionOptions {
  readonly isWrite: boolean;
  /** Soft-deleted rows are in sight. */
  readonly showsDeleted: boolean;
  /** Fires when the client has gone. */
  readonly signal: AbortSignal;
}

/** The database, as the server needs it. */
export interface PortalTransactions {
  /** Runs statements in one transaction under the caller's role, all sent at once; gives each one's rows. */
  all(
    caller: Caller,
    opts: TransactionOptions,
    statements: readonly Statement[],
  ): Promise<readonly (readonly object[])[]>;
  /** One transaction under the caller's role; `rollback` takes everything back at its end. */
  write<T>(
    caller: Caller,
    opts: TransactionOptions,
    work: (session: {
      run<Row extends object>(statement: Statement): Promise<readonly Row[]>;
      rollback(): void;
    }) => Promise<T>,
  ): Promise<T>;
}

type Row = Readonly<Record<string, unknown>>;

const numberOf = (value: unknown): number | undefined =>
  value === null || value === undefined ? undefined : Number(value);

/** Rows that the planner expects, out of `EXPLAIN (FORMAT JSON)`. */
function expectedRows(row: Row | undefined): number | undefined {
  const said = row?.["QUERY PLAN"];
  const plan = (typeof said === "string" ? JSON.parse(said) : said) as readonly { Plan?: Row }[] | undefined;
  return numberOf(plan?.[0]?.Plan?.["Plan Rows"]);
}

function rowsOf(main: readonly object[], total: number | undefined): PlanRows {
  const row = (main[0] ?? {}) as Row;
  return {
    body: typeof row.body === "string" ? row.body : undefined,
    pageTotal: numberOf(row.page_total) ?? 0,
    affected: numberOf(row.affected) ?? numberOf(row.page_total) ?? 0,
    inserted: numberOf(row.inserted),
    total,
  };
}

/** True for a write that its own result can make a refusal: then it is looked at before it is stored. */
function mayBeRefused({ verb, media, preferences }: TableRequest): boolean {
  return verb === "PUT" || media === "object" || preferences.maxAffected !== undefined;
}

/** Runs a plan and makes its answer; what is refused after it has run is rolled back. Throws what the database throws. */
export async function runPlan(
  { request, plan, showsDeleted }: Pick<PlannedRequest, "request" | "plan" | "showsDeleted">,
  caller: Caller,
  modules: { readonly database: PortalTransactions; readonly signal: AbortSignal; readonly maxRows: number },
): Promise<AnswerResult> {
  const { database, signal } = modules;
  if (plan.isWrite && mayBeRefused(request)) {
    return database.write(caller, { isWrite: true, showsDeleted, signal }, async (session) => {
      const main = await session.run<object>(plan.main);
      const result = answerOf(request, plan, rowsOf(main, undefined));
      if (!result.ok) session.rollback();
      return result;
    });
  }
  const { count, explain } = plan;
  const statements = [plan.main, ...(count === undefined ? [] : [count]), ...(explain === undefined ? [] : [explain])];
  const [main = [], ...counts] = await database.all(
    caller,
    { isWrite: plan.isWrite, showsDeleted, signal },
    statements,
  );
  const exact = count === undefined ? undefined : numberOf((counts[0]?.[0] as Row | undefined)?.total);
  const guess = explain === undefined ? undefined : expectedRows(counts.at(-1)?.[0] as Row | undefined);
  // An estimate counts up to one more than the most rows of an answer; beyond that the planner is asked.
  const isCounted = plan.countBy === "rows" || (exact !== undefined && exact <= modules.maxRows);
  const total = isCounted ? exact : (guess ?? exact);
  return answerOf(request, plan, rowsOf(main, total));
}
