import { AppError, isAppError } from "@turnpike/base";

/** Options of {@link createGroup}. */
export interface GroupOptions {
  /** Most items of one statement. */
  readonly maxItems: number;
  /** Most statements under way at once. */
  readonly maxUnderWay: number;
  /** Most items that wait; more are refused with LEDGER_UNAVAILABLE. */
  readonly maxWaiting: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Shares statements between calls that come together: one goes at once, and those that come while the statements under
 * way are as many as may be form the next group. `run` gives one result for each item, in their order. When it fails
 * for certain, so that nothing was committed, each item is tried alone; an error that leaves the outcome open, or that
 * says that the database was not reached, is every item's.
 */
export function createGroup<Item, Result>(
  opts: GroupOptions,
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
): (item: Item) => Promise<Result> {
  let waiting: Waiting<Item, Result>[] = [];
  let underWay = 0;
  let scheduled = false;

  const runGroup = async (group: readonly Waiting<Item, Result>[]): Promise<void> => {
    try {
      const results = await run(group.map(({ item }) => item));
      if (results.length !== group.length) {
        throw new AppError("INTERNAL", { detail: { what: "a group's results", got: results.length } });
      }
      // Checked above: `undefined` may be a result.
      for (const [at, { resolve }] of group.entries()) resolve(results[at] as Result);
    } catch (error) {
      if (group.length === 1 || !rolledBack(error)) for (const { reject } of group) reject(error);
      else await Promise.all(group.map((one) => runGroup([one])));
    }
  };

  const schedule = (): void => {
    if (scheduled || waiting.length === 0 || underWay >= opts.maxUnderWay) return;
    scheduled = true;
    // What comes in the same turn of the event loop shares the first statement.
    setImmediate(() => {
      scheduled = false;
      while (waiting.length > 0 && underWay < opts.maxUnderWay) {
        const group = waiting.slice(0, opts.maxItems);
        waiting = waiting.slice(opts.maxItems);
        underWay++;
        void runGroup(group).finally(() => {
          underWay--;
          schedule();
        });
      }
    });
  };

  return (item) => {
    if (waiting.length >= opts.maxWaiting) {
      return Promise.reject(new AppError("LEDGER_UNAVAILABLE", { detail: { queue: waiting.length, sent: false } }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    waiting.push({ item, resolve, reject });
    schedule();
    return promise;
  };
}

/** Refusals of an overloaded or closing database: asking it once more for each item would make that worse. */
const OVERLOAD = /^(?:53|57|58|08)/;

/** The database itself refused the statement for what is in it: see `ledgerError`. */
function rolledBack(error: unknown): boolean {
  if (!isAppError(error) || error.detail.unknown === true) return false;
  const { sqlState } = error.detail;
  return typeof sqlState === "string" && !OVERLOAD.test(sqlState);
}
