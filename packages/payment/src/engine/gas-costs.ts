import { BoundedMap } from "../bounded-map.ts";
import type { PaymentRecord } from "../types.ts";
import { type GasPolicy, settlementGas } from "./calls.ts";
import type { SettlementCost } from "./chain.ts";
import type { OpenBatch } from "./open-batch.ts";

/** How a payment is settled: by a share of a transaction, by one of its own, or by one that runs its payer's code. */
export type CostKind = "shared" | "alone" | "erc1271" | "erc6492";

interface Learned extends SettlementCost {
  readonly atMs: number;
}

/** Gas of a shared transaction beside its payments: intrinsic, and the contract's own. */
const SHARED_BASE_GAS = 30_000n;
/** Gas of each payment in it. */
const SHARED_GAS = 43_600n;
/** What is assumed before the first receipt: plain payments go through the contract SettlementBatch, also one by itself. */
const FIRST_GAS: Readonly<Record<CostKind, bigint>> = {
  shared: SHARED_GAS,
  alone: SHARED_BASE_GAS + SHARED_GAS,
  erc1271: 110_000n,
  erc6492: 400_000n,
};
/** A new receipt counts for one part in so many. */
const WEIGHT = 4n;
/**
 * What was learned falls back to what was assumed, by half each time this passes without a receipt. While payments are
 * refused there is none: what was learned in a bad hour must not refuse them for ever.
 */
const FADE_MS = 600_000;
/** Payers' wallets whose own cost is remembered. */
const PAYERS = { maxEntries: 10_000, ttlMs: 3_600_000 };

/** What settlements have cost on one network, from their receipts; what is usual, until there is one. */
export class GasCosts {
  readonly #gas: GasPolicy;
  readonly #nowMs: () => number;
  readonly #byKind = new Map<CostKind, Learned>();
  readonly #byPayer = new BoundedMap<string, Learned>(PAYERS);
  readonly #lost = new BoundedMap<string, Learned>(PAYERS);

  constructor(gas: GasPolicy, nowMs: () => number) {
    this.#gas = gas;
    this.#nowMs = nowMs;
  }

  /** Cost of one payment of a kind now. */
  each(kind: CostKind): SettlementCost {
    return this.#faded(kind, this.#byKind.get(kind));
  }

  /**
   * Cost of one payment by itself; `payer` in lower case, for payers whose own code runs. Such a payer is measured by the
   * estimate of its own payment, by what it has cost before, and last by others of its kind; what it has lost comes on top.
   */
  alone(kind: PaymentRecord["kind"], payer: string, estimate?: bigint): SettlementCost {
    if (kind === "eoa") return this.each("alone");
    const nowMs = this.#nowMs();
    const measured = this.#byPayer.get(`${kind} ${payer}`, nowMs);
    const { gas, dataFeeWei } = measured === undefined ? this.each(kind) : this.#faded(kind, measured);
    const lost = this.#lostBy(payer);
    return { gas: (estimate ?? gas) + lost.gas, dataFeeWei: dataFeeWei + lost.dataFeeWei };
  }

  /** Cost of a transaction that so many plain payments share. */
  shared(payments: number): SettlementCost {
    if (payments <= 1) return this.each("alone");
    const one = this.each("shared");
    const count = BigInt(payments);
    return { gas: SHARED_BASE_GAS + one.gas * count, dataFeeWei: one.dataFeeWei * count };
  }

  /** Learns of a mined transaction that settled all its payments. */
  learn({ payments, alone }: Pick<OpenBatch, "payments" | "alone">, mined: SettlementCost): void {
    const [only, ...others] = payments;
    if (only === undefined) return;
    if (only.kind !== "eoa") {
      this.#learnWallet(only.kind, only.key.from, mined);
      return;
    }
    if (others.length === 0) {
      // A plain account that may not share has code by now, or was sent again: no measure for the others.
      if (!alone) this.#learnKind("alone", mined);
      return;
    }
    const count = BigInt(payments.length);
    const rest = mined.gas > SHARED_BASE_GAS ? mined.gas - SHARED_BASE_GAS : 0n;
    this.#learnKind("shared", { gas: rest / count, dataFeeWei: mined.dataFeeWei / count });
  }

  /** Learns of a mined transaction that did not settle the only payment that it carried: its payer alone costs more. */
  learnLoss({ payments }: Pick<OpenBatch, "payments">, mined: SettlementCost): void {
    const [only, ...others] = payments;
    if (only === undefined || only.kind === "eoa" || others.length > 0) return;
    const payer = only.key.from;
    const earlier = this.#lostBy(payer);
    const { gas, dataFeeWei } = this.#capped(only.kind, mined);
    const nowMs = this.#nowMs();
    const lost = { gas: earlier.gas + gas, dataFeeWei: earlier.dataFeeWei + dataFeeWei, atMs: nowMs };
    this.#lost.set(payer, lost, nowMs);
  }

  #lostBy(payer: string): SettlementCost {
    const nowMs = this.#nowMs();
    const lost = this.#lost.get(payer, nowMs);
    if (lost === undefined) return { gas: 0n, dataFeeWei: 0n };
    const halves = halvesSince(lost.atMs, nowMs);
    return { gas: lost.gas / halves, dataFeeWei: lost.dataFeeWei / halves };
  }

  #learnKind(kind: CostKind, sample: SettlementCost): void {
    this.#byKind.set(kind, this.#mixed(this.each(kind), this.#capped(kind, sample)));
  }

  #learnWallet(kind: "erc1271" | "erc6492", payer: string, sample: SettlementCost): void {
    const nowMs = this.#nowMs();
    const name = `${kind} ${payer}`;
    const before = this.#byPayer.get(name, nowMs);
    const capped = this.#capped(kind, sample);
    const learned = before === undefined ? { ...capped, atMs: nowMs } : this.#mixed(this.#faded(kind, before), capped);
    this.#byPayer.set(name, learned, nowMs);
    this.#learnKind(kind, sample);
  }

  #gasLimit(kind: CostKind): bigint {
    return settlementGas([kind === "shared" || kind === "alone" ? "eoa" : kind], this.#gas);
  }

  /** What was learned, the nearer to what was assumed the longer ago it was. */
  #faded(kind: CostKind, learned: Learned | undefined): SettlementCost {
    const limit = this.#gasLimit(kind);
    const gas = FIRST_GAS[kind] < limit ? FIRST_GAS[kind] : limit;
    if (learned === undefined) return { gas, dataFeeWei: 0n };
    const halves = halvesSince(learned.atMs, this.#nowMs());
    return { gas: gas + (learned.gas - gas) / halves, dataFeeWei: learned.dataFeeWei / halves };
  }

  /** Never more than the gas limit, whatever a node says. */
  #capped(kind: CostKind, { gas, dataFeeWei }: SettlementCost): SettlementCost {
    const limit = this.#gasLimit(kind);
    return { gas: gas < limit ? gas : limit, dataFeeWei };
  }

  #mixed(before: SettlementCost, { gas, dataFeeWei }: SettlementCost): Learned {
    return {
      gas: (before.gas * (WEIGHT - 1n) + gas) / WEIGHT,
      dataFeeWei: (before.dataFeeWei * (WEIGHT - 1n) + dataFeeWei) / WEIGHT,
      atMs: this.#nowMs(),
    };
  }
}

/** Divisor of what was learned at a time. */
function halvesSince(atMs: number, nowMs: number): bigint {
  return 1n << BigInt(Math.min(1_000, Math.floor(Math.max(0, nowMs - atMs) / FADE_MS)));
}
