import { BoundedMap } from "../bounded-map.ts";
import type { PaymentRecord } from "../types.ts";
import { type GasPolicy, settlementGas } from "./calls.ts";
import type { OpenBatch } from "./lane.ts";

/** How a payment is settled: by a share of a transaction, by one of its own, or by one that runs its payer's code. */
export type CostKind = "shared" | "alone" | "erc1271" | "erc6492";

/** Cost of a settlement, without the price of a unit of gas. */
export interface SettlementCost {
  readonly gas: bigint;
  /** What a rollup charges for publishing the transaction, which is not in its gas. */
  readonly dataFeeWei: bigint;
}

/** What a receipt says of a transaction's cost. */
export interface MinedCost extends SettlementCost {
  /** What was paid for a unit of gas, in wei. */
  readonly gasPriceWei: bigint;
}

/** What settlements have cost on one network, from their receipts. */
export interface GasCosts {
  /** One payment by itself; `payer` in lower case, for payers whose own code runs. */
  alone(kind: PaymentRecord["kind"], payer: string): SettlementCost;
  /** A transaction that so many plain payments share. */
  shared(payments: number): SettlementCost;
  /** Learns of a mined transaction that settled all its payments. */
  learn(batch: Pick<OpenBatch, "payments" | "alone">, mined: SettlementCost): void;
  /** Cost of one payment of a kind now. */
  each(kind: CostKind): SettlementCost;
}

interface Learned extends SettlementCost {
  readonly atMs: number;
}

/** Gas of a shared transaction beside its payments: intrinsic, and Multicall3's own. */
const SHARED_BASE_GAS = 30_000n;
/** What is assumed before the first receipt. */
const FIRST_GAS: Readonly<Record<CostKind, bigint>> = {
  shared: 46_000n,
  alone: 66_000n,
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

/** Creates costs of a network of which nothing was seen yet. */
export function createGasCosts(gas: GasPolicy, nowMs: () => number): GasCosts {
  const byKind = new Map<CostKind, Learned>();
  const byPayer = new BoundedMap<string, Learned>(PAYERS);

  const mostOf = (kind: CostKind): bigint => settlementGas([kind === "shared" || kind === "alone" ? "eoa" : kind], gas);

  const first = (kind: CostKind): SettlementCost => {
    const most = mostOf(kind);
    return { gas: FIRST_GAS[kind] < most ? FIRST_GAS[kind] : most, dataFeeWei: 0n };
  };

  const now = (kind: CostKind, learned: Learned | undefined): SettlementCost => {
    const start = first(kind);
    if (learned === undefined) return start;
    const halves = 1n << BigInt(Math.min(1_000, Math.floor(Math.max(0, nowMs() - learned.atMs) / FADE_MS)));
    return {
      gas: start.gas + (learned.gas - start.gas) / halves,
      dataFeeWei: start.dataFeeWei + (learned.dataFeeWei - start.dataFeeWei) / halves,
    };
  };

  const each = (kind: CostKind): SettlementCost => now(kind, byKind.get(kind));

  /** Never more than the gas limit, whatever a node says. */
  const sampled = (kind: CostKind, sample: SettlementCost): SettlementCost => {
    const most = mostOf(kind);
    return { gas: sample.gas < most ? sample.gas : most, dataFeeWei: sample.dataFeeWei };
  };

  const mixed = (before: SettlementCost, { gas: gasNow, dataFeeWei }: SettlementCost): Learned => ({
    gas: (before.gas * (WEIGHT - 1n) + gasNow) / WEIGHT,
    dataFeeWei: (before.dataFeeWei * (WEIGHT - 1n) + dataFeeWei) / WEIGHT,
    atMs: nowMs(),
  });

  const learnKind = (kind: CostKind, sample: SettlementCost): void => {
    byKind.set(kind, mixed(each(kind), sampled(kind, sample)));
  };

  const learnWallet = (kind: "erc1271" | "erc6492", payer: string, sample: SettlementCost): void => {
    const name = `${kind} ${payer}`;
    const before = byPayer.get(name, nowMs());
    const capped = sampled(kind, sample);
    byPayer.set(name, before === undefined ? { ...capped, atMs: nowMs() } : mixed(now(kind, before), capped), nowMs());
    learnKind(kind, sample);
  };

  return {
    each,

    alone(kind, payer) {
      if (kind === "eoa") return each("alone");
      const own = byPayer.get(`${kind} ${payer}`, nowMs());
      return own === undefined ? each(kind) : now(kind, own);
    },

    shared(payments) {
      if (payments <= 1) return each("alone");
      const one = each("shared");
      const count = BigInt(payments);
      return { gas: SHARED_BASE_GAS + one.gas * count, dataFeeWei: one.dataFeeWei * count };
    },

    learn({ payments, alone }, mined) {
      const [only, ...others] = payments;
      if (only === undefined) return;
      if (only.kind !== "eoa") return learnWallet(only.kind, only.key.from, mined);
      if (others.length === 0) {
        // A plain account that may not share has code by now, or was sent again: no measure for the others.
        if (!alone) learnKind("alone", mined);
        return;
      }
      const count = BigInt(payments.length);
      const rest = mined.gas > SHARED_BASE_GAS ? mined.gas - SHARED_BASE_GAS : 0n;
      learnKind("shared", { gas: rest / count, dataFeeWei: mined.dataFeeWei / count });
    },
  };
}
