import { AppError, isAppError, type Log } from "@turnpike/base";
import type { JournaledTransaction, Ledger, RelayerLease } from "../ledger-types.ts";
import type { QueueItem } from "./queue.ts";
import { pause } from "./waiters.ts";

/** What came of a journal entry. */
export type Journaled =
  | { readonly kind: "done"; readonly batchId: bigint }
  /**
   * Nothing was written. The payments `lost` are not ours any more; `leaseLost` says that the key is not either, and
   * `freeNonce` names the nonce that the ledger expects.
   */
  | {
      readonly kind: "refused";
      readonly lost: ReadonlySet<string>;
      readonly leaseLost: boolean;
      readonly freeNonce: number | undefined;
    }
  | { readonly kind: "error"; readonly error: AppError };

/** One batch to be journaled. */
export interface JournalEntry {
  readonly lease: RelayerLease;
  readonly nonce: number;
  readonly gasLimit: bigint;
  readonly transaction: JournaledTransaction;
  readonly items: readonly QueueItem[];
}

const LONGEST_PAUSE_MS = 2_000;

/**
 * Writes a batch before it is sent. The ledger takes the same transaction once, so an error that does not say whether
 * it was committed means: again, until the ledger says so.
 * @throws AppError LEDGER_UNAVAILABLE with detail `unknown` when `signal` fired before that.
 */
export async function journalBatch(
  entry: JournalEntry,
  { ledger, log, signal }: { readonly ledger: Ledger; readonly log: Log; readonly signal: AbortSignal },
): Promise<Journaled> {
  const { lease, nonce, gasLimit, transaction } = entry;
  const items = entry.items.map(({ payment, answer }) => ({ id: payment.id, answer }));
  let doubt = false;
  for (let delayMs = 50; ; delayMs = Math.min(delayMs * 2, LONGEST_PAUSE_MS)) {
    try {
      const { batchId } = await ledger.journal({ lease, nonce, gasLimit, transaction, items });
      return { kind: "done", batchId };
    } catch (error) {
      const unknown = isAppError(error) && error.detail.unknown === true;
      if (isAppError(error, "LEDGER_FENCED")) {
        const { lease: leaseLost, lost, nextNonce } = error.detail;
        const ids = Array.isArray(lost) ? lost.map(String) : [];
        return {
          kind: "refused",
          // Without the lease the ledger cannot know the batch again, and calls what it has committed lost too.
          lost: leaseLost === true && doubt ? await sortOut(entry.items, ledger, signal) : new Set(ids),
          leaseLost: leaseLost === true,
          freeNonce: typeof nextNonce === "number" ? nextNonce : undefined,
        };
      }
      if (!doubt && !unknown) {
        return { kind: "error", error: isAppError(error) ? error : new AppError("INTERNAL", { cause: error }) };
      }
      doubt = true;
      log.warn({ relayer: lease.relayer, nonce }, "the journal did not answer");
      await pause(delayMs, signal);
      throwIfStopped(signal, error);
    }
  }
}

/** Ends each item by what the ledger says of its payment; returns them all. */
async function sortOut(items: readonly QueueItem[], ledger: Ledger, signal: AbortSignal): Promise<ReadonlySet<string>> {
  for (const item of items) {
    for (let delayMs = 50; ; delayMs = Math.min(delayMs * 2, LONGEST_PAUSE_MS)) {
      try {
        const state = (await ledger.get(item.payment.id))?.state;
        if (state === undefined || state === "claimed" || state === "released")
          item.reject(new AppError("LEDGER_FENCED"));
        else item.commit();
        break;
      } catch (error) {
        await pause(delayMs, signal);
        throwIfStopped(signal, error);
      }
    }
  }
  return new Set(items.map(({ payment }) => payment.id));
}

function throwIfStopped(signal: AbortSignal, cause: unknown): void {
  if (signal.aborted) throw new AppError("LEDGER_UNAVAILABLE", { cause, detail: { unknown: true } });
}
