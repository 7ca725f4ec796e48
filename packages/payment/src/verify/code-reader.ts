import { AppError, type Clock } from "@turnpike/base";
import type { BoundedMap } from "./bounded-map.ts";
import { type ChainAccess, hasCode } from "./reading.ts";

/** Tells accounts with code from those without; many questions share one exchange. */
export interface CodeReader {
  /** @throws AppError SETTLEMENT_UNAVAILABLE when the chain does not answer, OVERLOADED when too many wait. */
  hasCode(account: string): Promise<boolean>;
}

const MAX_BATCH = 100;

/**
 * Makes the reader of one chain. `noCode` is shared with the checker of plain accounts: who was seen without code lately
 * is not asked for again.
 */
export function createCodeReader(
  opts: { readonly maxExchanges: number; readonly maxQueued: number },
  modules: { readonly access: ChainAccess; readonly noCode: BoundedMap<string, true>; readonly clock: Clock },
): CodeReader {
  const { access, noCode, clock } = modules;
  const waiting = new Map<
    string,
    { readonly answer: Promise<boolean>; readonly settle: (run: Promise<boolean>) => void }
  >();
  let running = 0;
  let scheduled = false;

  const schedule = (): void => {
    if (scheduled || waiting.size === 0 || running >= opts.maxExchanges) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      while (waiting.size > 0 && running < opts.maxExchanges) {
        const batch = [...waiting].slice(0, MAX_BATCH);
        for (const [account] of batch) waiting.delete(account);
        running++;
        const replies = access.rpc.batch(
          batch.map(([account]) => ({ method: "eth_getCode", params: [account, "latest"] })),
        );
        for (const [at, [account, { settle }]] of batch.entries()) settle(read(account, at, replies));
        const ended = (): void => {
          running--;
          schedule();
        };
        replies.then(ended, ended);
      }
    });
  };

  const read = async (
    account: string,
    at: number,
    replies: ReturnType<ChainAccess["rpc"]["batch"]>,
  ): Promise<boolean> => {
    const found = hasCode((await replies)[at], access);
    if (!found) noCode.set(account, true, clock.monotonicMs());
    return found;
  };

  return {
    hasCode(named) {
      const account = named.toLowerCase();
      if (noCode.get(account, clock.monotonicMs()) === true) return Promise.resolve(false);
      const asked = waiting.get(account);
      if (asked !== undefined) return asked.answer;
      if (waiting.size >= opts.maxQueued) return Promise.reject(new AppError("OVERLOADED"));
      const { promise: answer, resolve: settle } = Promise.withResolvers<boolean>();
      waiting.set(account, { answer, settle });
      schedule();
      return answer;
    },
  };
}
