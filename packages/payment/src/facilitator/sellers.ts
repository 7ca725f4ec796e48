import { type Address, bytesToHex, type ServiceId, sameAddress, utf8ToBytes } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import type { SettlementBudget } from "../ledger-types.ts";
import type { DecodedPayment } from "../types.ts";

/** A third party whose sales are settled, and its part of the settled work. */
export interface Seller {
  /** Letters, digits and dashes. */
  readonly name: string;
  /** SHA-256 of its key, in lower-case hex. */
  readonly keySha256: string;
  /** Receivers of its sales; any when empty. */
  readonly receivers: readonly Address[];
  readonly settlementsPerDay: number;
  /** Settlements a day of each of its payers; a tenth of its own by default. */
  readonly settlementsPerPayer?: number | undefined;
}

/** Part of a seller's day that one payer may use up by default. */
const PAYERS_PART = 10;

/** Settlements of a day for third parties that have no key. */
export interface KeylessBudgets {
  /** Maximum of all of them together. */
  readonly settlementsPerDay: number;
  readonly settlementsPerPayer: number;
  readonly settlementsPerReceiver: number;
}

/** Sellers whose sales are settled, and how many of them a day. */
export interface SellerOptions {
  /** Receivers whose sales are the operator's own: each brings its amount, and needs no other bound. */
  readonly ownReceivers: readonly Address[];
  readonly sellers: readonly Seller[];
  readonly keyless: KeylessBudgets;
}

/** Name in the ledger of sales without a seller's key. */
const KEYLESS = "facilitator" as ServiceId;
const BEARER = /^bearer +([\x21-\x7e]{1,512})$/i;

/** The sellers of a facilitator, by their keys. */
export class Sellers {
  readonly #opts: SellerOptions;
  readonly #byKey: ReadonlyMap<string, Seller>;

  constructor(opts: SellerOptions) {
    this.#opts = opts;
    this.#byKey = new Map(opts.sellers.map((seller) => [seller.keySha256, seller]));
  }

  /** True when sellers of third parties have keys here. */
  get hasKeys(): boolean {
    return this.#byKey.size > 0;
  }

  /**
   * The seller of an `Authorization` header; `unknown` for a header that names none. Without sellers a header means nothing, as
   * clients may send one to every facilitator.
   */
  fromHeader(header: string | undefined): Seller | "unknown" | undefined {
    if (header === undefined || this.#byKey.size === 0) return undefined;
    const key = BEARER.exec(header)?.[1];
    // Looked up by its hash: the time that a comparison takes says nothing of a key.
    const seller = key === undefined ? undefined : this.#byKey.get(bytesToHex(sha256(utf8ToBytes(key))));
    return seller ?? "unknown";
  }

  /** True for a sale of the operator's own. */
  isOwn({ option }: DecodedPayment): boolean {
    return this.#opts.ownReceivers.some((receiver) => sameAddress(receiver, option.payTo));
  }

  /** Name of a sale in the ledger, and in the operator's rule for what a settlement may cost. */
  serviceOf(payment: DecodedPayment, seller: Seller | undefined): ServiceId {
    return seller === undefined || this.isOwn(payment) ? KEYLESS : sellerService(seller.name);
  }

  /** Budgets of a sale's settlement; none where it is the operator's own. */
  budgetsOf(payment: DecodedPayment, seller: Seller | undefined): readonly SettlementBudget[] {
    if (this.isOwn(payment)) return [];
    const { keyless } = this.#opts;
    const payer = payment.authorization.from.toLowerCase();
    const { network, payTo } = payment.option;
    if (seller !== undefined) {
      const { name, settlementsPerDay, settlementsPerPayer = Math.ceil(settlementsPerDay / PAYERS_PART) } = seller;
      return [
        { name: `payer ${name} ${network} ${payer}`, perDay: settlementsPerPayer },
        { name: `seller ${name}`, perDay: settlementsPerDay },
      ];
    }
    return [
      { name: `payer ${network} ${payer}`, perDay: keyless.settlementsPerPayer },
      { name: `receiver ${network} ${payTo.toLowerCase()}`, perDay: keyless.settlementsPerReceiver },
      { name: "keyless", perDay: keyless.settlementsPerDay },
    ];
  }
}

/** Name in the ledger of a seller's sales. */
export function sellerService(name: string): ServiceId {
  return `seller:${name}` as ServiceId;
}
