import { BoundedMap } from "../bounded-map.ts";
import type { PaymentRecord } from "../types.ts";
import { type GasPolicy, settlementGas } from "./calls.ts";
import type { SettlementCost } from "./chain.ts";
import type { OpenBatch } from "./open-batch.ts";

/** How a payment is settled: by a share of a transaction, by one of its own, or by one that runs its payer's code. */
export type CostKind = "shared" | "alone" | "erc1271" | "erc6492";

interface Learned {
  readonly gas: bigint;
  readonly atMs: number;
}

interface Lost extends SettlementCost {
  readonly atMs: number;
}

/** Fee for the data of a transaction by byte, in parts of a wei ({@link RATE_SCALE}). */
interface DataRate {
  readonly rate: bigint;
  readonly atMs: number;
}

/** A payment by itself, as its cost is estimated. */
export interface CostedPayment {
  readonly kind: PaymentRecord["kind"];
  /** In lower case, for payers whose own code runs. */
  readonly payer: string;
  /** Estimated gas of its settlement. */
  readonly gas?: bigint | undefined;
  /** Length of its signature, all of which is sent; that of a usual one by default. */
  readonly signatureBytes?: number | undefined;
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
/** Bytes of a transaction beside its payments: signature, fees, and heads of the call. */
const BASE_BYTES = 220n;
/** Bytes of a payment beside a wallet's signature: ten words, of which a plain account's signature is three. */
const PAYMENT_BYTES = 320n;
/** Bytes of the calls that deploy a wallet, beside what its signature has of them. */
const DEPLOYMENT_BYTES = 400n;
/** Bytes of a usual wallet's signature: of a passkey, and the same with the wallet's deployment. */
const SIGNATURE_BYTES = { erc1271: 640, erc6492: 1_300 } as const;
const RATE_SCALE = 1_000_000n;
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
  readonly #lost = new BoundedMap<string, Lost>(PAYERS);
  /** Data fee by byte of transactions of plain payments, and of wallets', whose signatures compress as they choose. */
  #plainRate: DataRate | undefined;
  #walletRate: DataRate | undefined;

  constructor(gas: GasPolicy, nowMs: () => number) {
    this.#gas = gas;
    this.#nowMs = nowMs;
  }

  /** Cost of one usual payment of a kind now. */
  each(kind: CostKind): SettlementCost {
    const gas = this.#faded(kind, this.#byKind.get(kind));
    const payment = { kind: kind === "shared" || kind === "alone" ? "eoa" : kind } as const;
    const bytes = bytesOf(payment) + (kind === "shared" ? 0n : BASE_BYTES);
    return { gas, dataFeeWei: this.#dataFee(bytes) };
  }

  /**
   * Cost of one payment by itself. A payer whose own code runs is measured by the estimate of its own payment, by what it has cost
   * before, and last by others of its kind; by the bytes of its own signature; and what it has lost comes on top.
   */
  alone(payment: CostedPayment): SettlementCost {
    const { kind, payer, gas: estimate } = payment;
    if (kind === "eoa") return this.each("alone");
    const measured = this.#byPayer.get(`${kind} ${payer}`, this.#nowMs());
    const gas = estimate ?? this.#faded(kind, measured ?? this.#byKind.get(kind));
    const lost = this.#lostBy(payer);
    return { gas: gas + lost.gas, dataFeeWei: this.#dataFee(BASE_BYTES + bytesOf(payment)) + lost.dataFeeWei };
  }

  /** Cost of a transaction that so many plain payments share. */
  shared(payments: number): SettlementCost {
    if (payments <= 1) return this.each("alone");
    const { gas } = this.each("shared");
    const count = BigInt(payments);
    return { gas: SHARED_BASE_GAS + gas * count, dataFeeWei: this.#dataFee(BASE_BYTES + PAYMENT_BYTES * count) };
  }

  /** Learns of a mined transaction that settled all its payments. */
  learn({ payments, alone }: Pick<OpenBatch, "payments" | "alone">, mined: SettlementCost): void {
    const [only, ...others] = payments;
    if (only === undefined) return;
    this.#learnRate(payments, mined.dataFeeWei);
    if (only.kind !== "eoa") {
      this.#learnWallet(only.kind, only.key.from, mined.gas);
      return;
    }
    if (others.length === 0) {
      // A plain account that may not share has code by now, or was sent again: no measure for the others.
      if (!alone) this.#learnKind("alone", mined.gas);
      return;
    }
    const count = BigInt(payments.length);
    const rest = mined.gas > SHARED_BASE_GAS ? mined.gas - SHARED_BASE_GAS : 0n;
    this.#learnKind("shared", rest / count);
  }

  /** Learns of a mined transaction that did not settle the only payment that it carried: its payer alone costs more. */
  learnLoss({ payments }: Pick<OpenBatch, "payments">, mined: SettlementCost): void {
    const [only, ...others] = payments;
    if (only === undefined || only.kind === "eoa" || others.length > 0) return;
    const payer = only.key.from;
    const earlier = this.#lostBy(payer);
    const gas = earlier.gas + this.#capped(only.kind, mined.gas);
    const nowMs = this.#nowMs();
    const lost = { gas, dataFeeWei: earlier.dataFeeWei + mined.dataFeeWei, atMs: nowMs };
    this.#lost.set(payer, lost, nowMs);
  }

  #lostBy(payer: string): SettlementCost {
    const nowMs = this.#nowMs();
    const lost = this.#lost.get(payer, nowMs);
    if (lost === undefined) return { gas: 0n, dataFeeWei: 0n };
    const halves = halvesSince(lost.atMs, nowMs);
    return { gas: lost.gas / halves, dataFeeWei: lost.dataFeeWei / halves };
  }

  #learnKind(kind: CostKind, gas: bigint): void {
    this.#byKind.set(kind, this.#mixed(kind, this.#byKind.get(kind), gas));
  }

  #learnWallet(kind: "erc1271" | "erc6492", payer: string, gas: bigint): void {
    const nowMs = this.#nowMs();
    const name = `${kind} ${payer}`;
    const before = this.#byPayer.get(name, nowMs);
    const first = { gas: this.#capped(kind, gas), atMs: nowMs };
    this.#byPayer.set(name, before === undefined ? first : this.#mixed(kind, before, gas), nowMs);
    this.#learnKind(kind, gas);
  }

  #learnRate(payments: OpenBatch["payments"], dataFeeWei: bigint): void {
    const bytes = payments.reduce((sum, { kind, signature }) => {
      return sum + bytesOf({ kind, signatureBytes: signature.length });
    }, BASE_BYTES);
    const sample = (dataFeeWei * RATE_SCALE) / bytes;
    const isPlain = payments.every(({ kind }) => kind === "eoa");
    const before = isPlain ? this.#plainRate : this.#walletRate;
    const rate = before === undefined ? sample : (this.#fadedRate(before) * (WEIGHT - 1n) + sample) / WEIGHT;
    const learned = { rate, atMs: this.#nowMs() };
    if (isPlain) this.#plainRate = learned;
    else this.#walletRate = learned;
  }

  /** Fee for so many bytes. Wallets' transactions say what a byte costs only while there are none of plain payments. */
  #dataFee(bytes: bigint): bigint {
    const plain = this.#fadedRate(this.#plainRate);
    const isRecent = this.#plainRate !== undefined && this.#nowMs() - this.#plainRate.atMs < FADE_MS;
    const wallet = isRecent ? 0n : this.#fadedRate(this.#walletRate);
    return ((plain > wallet ? plain : wallet) * bytes) / RATE_SCALE;
  }

  #fadedRate(learned: DataRate | undefined): bigint {
    return learned === undefined ? 0n : learned.rate / halvesSince(learned.atMs, this.#nowMs());
  }

  #gasLimit(kind: CostKind): bigint {
    return settlementGas([kind === "shared" || kind === "alone" ? "eoa" : kind], this.#gas);
  }

  /** What was learned, the nearer to what was assumed the longer ago it was. */
  #faded(kind: CostKind, learned: Learned | undefined): bigint {
    const limit = this.#gasLimit(kind);
    const gas = FIRST_GAS[kind] < limit ? FIRST_GAS[kind] : limit;
    return learned === undefined ? gas : gas + (learned.gas - gas) / halvesSince(learned.atMs, this.#nowMs());
  }

  /** Never more than the gas limit, whatever a node says. */
  #capped(kind: CostKind, gas: bigint): bigint {
    const limit = this.#gasLimit(kind);
    return gas < limit ? gas : limit;
  }

  #mixed(kind: CostKind, before: Learned | undefined, gas: bigint): Learned {
    const mixed = (this.#faded(kind, before) * (WEIGHT - 1n) + this.#capped(kind, gas)) / WEIGHT;
    return { gas: mixed, atMs: this.#nowMs() };
  }
}

/** Bytes that a payment takes in its transaction. */
function bytesOf({ kind, signatureBytes }: Pick<CostedPayment, "kind" | "signatureBytes">): bigint {
  if (kind === "eoa") return PAYMENT_BYTES;
  const signature = BigInt(signatureBytes ?? SIGNATURE_BYTES[kind]);
  return PAYMENT_BYTES + signature + (kind === "erc6492" ? DEPLOYMENT_BYTES : 0n);
}

/** Divisor of what was learned at a time. */
function halvesSince(atMs: number, nowMs: number): bigint {
  return 1n << BigInt(Math.min(1_000, Math.floor(Math.max(0, nowMs - atMs) / FADE_MS)));
}
