import type { Clock } from "@turnpike/base";
import type { Ledger } from "../ledger-types.ts";
import type { DecodedPayment, PaymentRefusal } from "../types.ts";
import type { Seller, Sellers } from "./sellers.ts";

/** A sale that is to be settled, and the seller whose key its request has. */
interface BudgetedSale {
  readonly payment: DecodedPayment;
  readonly seller: Seller | undefined;
}

/** Modules of {@link SaleBudgets}, which owns none of them. */
export interface SaleBudgetModules {
  readonly ledger: Pick<Ledger, "takeBudgets" | "returnBudgets" | "usedUpBudget">;
  readonly sellers: Sellers;
  readonly clock: Clock;
}

const DAY_MS = 86_400_000;

/** Bounds the settlements of a day by payer, receiver and seller. The ledger counts them, for all processes of it. */
export class SaleBudgets {
  readonly #modules: SaleBudgetModules;

  constructor(modules: SaleBudgetModules) {
    this.#modules = modules;
  }

  /** Takes one settlement, or says which budget is used up. */
  async take({ payment, seller }: BudgetedSale): Promise<{ readonly ok: true } | PaymentRefusal> {
    const { ledger, sellers } = this.#modules;
    const budgets = sellers.budgetsOf(payment, seller);
    const usedUp = budgets.length === 0 ? undefined : await ledger.takeBudgets(budgets);
    return usedUp === undefined ? { ok: true } : this.#refusal(usedUp);
  }

  /** Gives a settlement that was not sent back. */
  async giveBack({ payment, seller }: BudgetedSale): Promise<void> {
    const { ledger, sellers } = this.#modules;
    const budgets = sellers.budgetsOf(payment, seller);
    if (budgets.length > 0) await ledger.returnBudgets(budgets.map(({ name }) => name));
  }

  /** Why a settlement could not be taken now; undefined when it could. Takes nothing. */
  async refusal({ payment, seller }: BudgetedSale): Promise<PaymentRefusal | undefined> {
    const { ledger, sellers } = this.#modules;
    const budgets = sellers.budgetsOf(payment, seller);
    const usedUp = budgets.length === 0 ? undefined : await ledger.usedUpBudget(budgets);
    return usedUp === undefined ? undefined : this.#refusal(usedUp);
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
