import type { Clock } from "@turnpike/base";
import type { Ledger, SettlementBudget } from "../ledger-types.ts";
import type { DecodedPayment, PaymentRefusal } from "../types.ts";
import type { Seller, Sellers } from "./sellers.ts";

/** A sale that is to be settled, and the seller whose key its request has. */
interface BudgetedSale {
  readonly payment: DecodedPayment;
  readonly seller: Seller | undefined;
  /** Estimated gas of its settlement, where that runs the payer's code. */
  readonly gas?: bigint | undefined;
}

/** Modules of {@link SaleBudgets}, which owns none of them. */
export interface SaleBudgetModules {
  readonly ledger: Pick<Ledger, "takeBudgets" | "returnBudgets" | "usedUpBudget">;
  readonly sellers: Sellers;
  readonly clock: Clock;
}

const DAY_MS = 86_400_000;
/** Gas of one settlement in a budget: about that of a plain payment. What runs a payer's code counts as several. */
const UNIT_GAS = 60_000n;

/** Bounds the settlements of a day, by their gas, by payer, receiver and seller. The ledger counts them, for all processes of it. */
export class SaleBudgets {
  readonly #modules: SaleBudgetModules;

  constructor(modules: SaleBudgetModules) {
    this.#modules = modules;
  }

  /** Takes a settlement, or says which budget is used up. */
  async take(sale: BudgetedSale): Promise<{ readonly ok: true } | PaymentRefusal> {
    const { ledger } = this.#modules;
    const budgets = this.#budgetsOf(sale);
    const usedUp = budgets.length === 0 ? undefined : await ledger.takeBudgets(budgets, unitsOf(sale));
    return usedUp === undefined ? { ok: true } : this.#refusal(usedUp);
  }

  /** Gives a settlement that was not sent back; with `isPayers` one that its payer made fail, which counts for that one alone. */
  async giveBack(sale: BudgetedSale, isPayers = false): Promise<void> {
    const { ledger } = this.#modules;
    const budgets = this.#budgetsOf(sale).filter(({ name }) => !isPayers || !name.startsWith("payer "));
    if (budgets.length > 0)
      await ledger.returnBudgets(
        budgets.map(({ name }) => name),
        unitsOf(sale),
      );
  }

  /** Why a settlement could not be taken now; undefined when it could. Takes nothing. */
  async refusal(sale: BudgetedSale): Promise<PaymentRefusal | undefined> {
    const { ledger } = this.#modules;
    const budgets = this.#budgetsOf(sale);
    const usedUp = budgets.length === 0 ? undefined : await ledger.usedUpBudget(budgets, unitsOf(sale));
    return usedUp === undefined ? undefined : this.#refusal(usedUp);
  }

  #budgetsOf({ payment, seller }: BudgetedSale): readonly SettlementBudget[] {
    return this.#modules.sellers.budgetsOf(payment, seller);
  }

  #refusal(name: string): PaymentRefusal {
    const nowMs = this.#modules.clock.nowMs();
    const [kind = ""] = name.split(" ", 1);
    const whose = kind === "keyless" ? "clients without a seller's key" : `this ${kind}`;
    return {
      ok: false,
      code: "PAYMENT_RATE_LIMITED",
      message: `The settlements of ${whose} for today (UTC) are used up.`,
      retryAfterSeconds: Math.ceil((DAY_MS - (nowMs % DAY_MS)) / 1_000),
    };
  }
}

function unitsOf({ gas = 0n }: BudgetedSale): number {
  return Math.max(1, Number((gas + UNIT_GAS - 1n) / UNIT_GAS));
}
