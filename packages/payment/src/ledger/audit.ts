import type { Address, NetworkId, SettlementId } from "@turnpike/base";
import type pg from "pg";
import type { PaymentState } from "../types.ts";
import { withClient } from "./client.ts";
import { quoteSchema } from "./statements.ts";

/** Where the payments and their events disagree. */
export type LedgerDifference =
  /** The sums of one asset's payments in one state. */
  | {
      readonly kind: "sum";
      readonly network: NetworkId;
      readonly asset: Address;
      readonly state: PaymentState;
      readonly payments: { readonly count: number; readonly value: bigint };
      readonly events: { readonly count: number; readonly value: bigint };
    }
  /** A payment whose last event names another state. */
  | {
      readonly kind: "payment";
      readonly id: SettlementId;
      readonly state: PaymentState;
      readonly eventState: PaymentState | undefined;
    };

/** What {@link auditLedger} found. */
export interface LedgerAudit {
  readonly ok: boolean;
  /** At most 1,000 of each kind. */
  readonly differences: readonly LedgerDifference[];
}

interface SumRow {
  readonly network: string;
  readonly asset: string;
  readonly state: string;
  readonly payments: string;
  readonly value: string;
  readonly event_payments: string;
  readonly event_value: string;
}

interface StrayRow {
  readonly id: string;
  readonly state: string;
  readonly event_state: string | null;
}

/**
 * Sums the ledger twice, from the payments and from the events alone, in one snapshot. It reads every row: run it on
 * demand. `connectTimeoutMs` is the longest wait for its connection, 5,000 by default. Throws AppError
 * LEDGER_UNAVAILABLE or LEDGER_SCHEMA.
 */
export async function auditLedger(
  url: string,
  opts: { readonly schema: string; readonly connectTimeoutMs?: number },
): Promise<LedgerAudit> {
  const s = quoteSchema(opts.schema);
  const work = async (client: pg.Client): Promise<LedgerAudit> => {
    await client.query("begin isolation level repeatable read read only");
    await client.query("set local statement_timeout = 0");
    const sums = await client.query<SumRow>(`select * from ${s}.books_differences limit 1000`);
    const strays = await client.query<StrayRow>(`select id, state, event_state from ${s}.strayed_payments limit 1000`);
    await client.query("commit");
    const differences: LedgerDifference[] = [
      ...sums.rows.map(
        (row): LedgerDifference => ({
          kind: "sum",
          network: row.network as NetworkId,
          asset: row.asset as Address,
          state: row.state as PaymentState,
          payments: { count: Number(row.payments), value: BigInt(row.value) },
          events: { count: Number(row.event_payments), value: BigInt(row.event_value) },
        }),
      ),
      ...strays.rows.map(
        (row): LedgerDifference => ({
          kind: "payment",
          id: row.id as SettlementId,
          state: row.state as PaymentState,
          eventState: (row.event_state as PaymentState | null) ?? undefined,
        }),
      ),
    ];
    return { ok: differences.length === 0, differences };
  };
  return withClient(url, "auditLedger", work, opts.connectTimeoutMs);
}
