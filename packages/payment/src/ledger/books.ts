import type { Address, NetworkId } from "@turnpike/base";
import type { Books } from "../ledger-types.ts";
import type { PaymentState } from "../types.ts";

/** One asset's payments in one state, as the view `books` gives them. */
export interface BooksRow {
  readonly network: string;
  readonly asset: string;
  readonly state: PaymentState;
  readonly payments: string;
  readonly value: string;
}

const none = { count: 0, value: 0n };

/** Gathers the view's rows by asset; states without payments are zero. */
export function booksOf(rows: readonly BooksRow[]): readonly Books[] {
  return [...Map.groupBy(rows, (row) => `${row.network} ${row.asset}`).values()].flatMap((group): Books[] => {
    const [first] = group;
    if (first === undefined) return [];
    const states: Record<PaymentState, { count: number; value: bigint }> = {
      claimed: none,
      released: none,
      signed: none,
      submitted: none,
      settled: none,
      failed: none,
      owed: none,
      disputed: none,
    };
    for (const row of group) states[row.state] = { count: Number(row.payments), value: BigInt(row.value) };
    return [{ network: first.network as NetworkId, asset: first.asset as Address, states }];
  });
}
