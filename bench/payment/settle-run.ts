import { setImmediate } from "node:timers/promises";
import type { PaymentPayload } from "@x402/core/types";
import type { OurFacts } from "./our-config.ts";
import { payerOf, signPayment } from "./payers.ts";

/** One measurement of settlements. */
export interface SettleRun {
  /** Most payments; they are signed before. */
  readonly count: number;
  /** Payments under way at once; as one is settled the next is offered. */
  readonly concurrency: number;
  /** When no more are offered; those under way are waited for. */
  readonly durationMs?: number;
  readonly payers: number;
}

/** What became of the payments. */
export interface SettleResult {
  readonly settled: number;
  /** From the offer of the first payments to the last answer. */
  readonly elapsedMs: number;
  readonly cpuMicros: number;
  /** Different transactions of the settled payments. */
  readonly transactions: readonly string[];
  /** Reasons of the others, with their counts. */
  readonly failures: Readonly<Record<string, number>>;
}

/**
 * How the reference is put together. `documented`: viem's defaults, as its examples have it. `managed`: with viem's
 * nonce manager. `tuned`: with JSON-RPC batches and quick polling for receipts too.
 */
export type ReferenceStyle = "documented" | "managed" | "tuned";

/** How a settling child is put together. */
export interface SettleFacts extends OurFacts {
  /** For the reference only. */
  readonly style: ReferenceStyle;
}

/** Operations of a settling child. */
export type SettleOperations = {
  readonly open: (facts: SettleFacts) => Promise<void>;
  readonly run: (run: SettleRun) => Promise<SettleResult>;
};

/** One settlement's end. */
export type Settled = { readonly transaction: string } | { readonly failure: string };

/** Signs payments, keeps as many under way as wanted, and waits for every answer. */
export async function measureSettle(
  run: SettleRun,
  settle: (payload: PaymentPayload) => Promise<Settled>,
): Promise<SettleResult> {
  const payloads: PaymentPayload[] = [];
  for (let at = 0; at < run.count; at++) {
    payloads.push(signPayment(payerOf(at % run.payers)));
    // Signing is the load's: our side, which is in this process, goes on renewing its leases meanwhile.
    if (at % 50 === 0) await setImmediate();
  }
  const cpuBefore = process.cpuUsage();
  const startedMs = performance.now();
  const results: Settled[] = [];
  const endMs = startedMs + (run.durationMs ?? Number.POSITIVE_INFINITY);
  let next = 0;
  const work = async (): Promise<void> => {
    for (let payload = payloads[next++]; payload !== undefined; payload = payloads[next++]) {
      results.push(await settle(payload));
      if (performance.now() >= endMs) return;
    }
  };
  await Promise.all(Array.from({ length: run.concurrency }, work));
  const elapsedMs = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(cpuBefore);
  const transactions = new Set<string>();
  const failures: Record<string, number> = {};
  let settled = 0;
  for (const result of results) {
    if ("transaction" in result) {
      settled++;
      transactions.add(result.transaction);
    } else failures[result.failure] = (failures[result.failure] ?? 0) + 1;
  }
  return { settled, elapsedMs, cpuMicros: user + system, transactions: [...transactions], failures };
}
