import { type Clock, isAppError, type Log, type Metrics } from "@turnpike/base";
import { pause } from "./engine/waiters.ts";
import { ledgerPayments, ledgerSumsTimestampSeconds, ledgerValueUnits } from "./ledger/metrics.ts";
import type { Ledger } from "./ledger-types.ts";

/** A sum reads every payment: it may take at most this part of the time. */
const SHARE = 1 / 20;

interface LedgerGaugesOptions {
  /** Least time between two sums. A slow sum is followed by a longer pause. */
  readonly everyMs: number;
}

interface LedgerGaugesModules {
  readonly ledger: Pick<Ledger, "sums">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Keeps the gauges of payments and their value by state up to date, from the ledger's sums, until it is disposed of. */
export function startLedgerGauges(opts: LedgerGaugesOptions, modules: LedgerGaugesModules): AsyncDisposable {
  const { ledger, clock, log, metrics } = modules;
  const stopping = new AbortController();

  const read = async (): Promise<void> => {
    for (const { network, asset, states } of await ledger.sums()) {
      for (const [state, { count, value }] of Object.entries(states)) {
        const labels = { network, asset, state };
        metrics.set(ledgerPayments, count, labels);
        metrics.set(ledgerValueUnits, Number(value), labels);
      }
    }
    metrics.set(ledgerSumsTimestampSeconds, clock.nowMs() / 1_000);
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const startMs = clock.monotonicMs();
      try {
        await read();
      } catch (error) {
        if (stopping.signal.aborted) return;
        log.warn({ code: isAppError(error) ? error.code : "unknown" }, "the sums of the ledger could not be read");
      }
      const tookMs = clock.monotonicMs() - startMs;
      await pause(Math.max(opts.everyMs, tookMs / SHARE), stopping.signal);
    }
  };
  void run();

  return {
    async [Symbol.asyncDispose]() {
      // A sum under way is not waited for: it may take minutes, and the ledger, which is closed after this, cuts it off.
      stopping.abort();
    },
  };
}
