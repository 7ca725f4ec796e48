import type { SettlementBudget } from "../ledger-types.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";

/** Settlements of a day, by what bounds them. */
export class SettlementBudgets {
  readonly #parts: LedgerParts;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  take(budgets: readonly SettlementBudget[], units: number): Promise<string | undefined> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "takeBudgets", async () => {
      const values = [budgets.map(({ name }) => name), budgets.map(({ perDay }) => perDay), units];
      const rows = await database.run<{ used_up: string | null }>(statements.takeBudgets, values);
      return onlyRow(rows, "takeBudgets").used_up ?? undefined;
    });
  }

  giveBack(names: readonly string[], units: number): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "returnBudgets", async () => {
      await database.run(statements.returnBudgets, [names, units]);
    });
  }

  async usedUp(budgets: readonly SettlementBudget[], units: number): Promise<string | undefined> {
    const { database, statements } = this.#parts;
    const values = [budgets.map(({ name }) => name), budgets.map(({ perDay }) => perDay), units];
    const [row] = await database.run<{ name: string }>(statements.usedUpBudget, values);
    return row?.name;
  }
}
