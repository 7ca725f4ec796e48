import { AppError, isAppError } from "@turnpike/base";
import { Batcher, type BatcherOptions } from "../batcher.ts";

/** Bounds of the statements that calls share. */
export interface GroupOptions extends BatcherOptions {
  /** Most items that wait; more are refused with LEDGER_UNAVAILABLE. */
  readonly maxWaiting: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Shares statements between calls that come together. `run` gives one result for each item, in their order. When it fails
 * for certain, so that nothing was committed, each item is tried alone; an error that leaves the outcome open, or that
 * says that the database was not reached, is every item's.
 */
export function createGroup<Item, Result>(
  opts: GroupOptions,
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
): (item: Item) => Promise<Result> {
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
  const batcher = new Batcher(opts, runGroup);
  return (item) => {
    if (batcher.waiting >= opts.maxWaiting) {
      return Promise.reject(new AppError("LEDGER_UNAVAILABLE", { detail: { queue: batcher.waiting, sent: false } }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    batcher.add({ item, resolve, reject });
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
