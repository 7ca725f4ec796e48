import { failureCode, type Log, type NetworkId, Places, type SettlementId } from "@turnpike/base";
import type { Ledger, WalletAdmission } from "../ledger-types.ts";
import type { PaymentRecord, PaymentRefusal } from "../types.ts";
import { pausedWallet } from "../verify/payer-code.ts";
import { pause } from "./waiters.ts";

/** Pause until places are asked for again, by one question for all payments of a payer. */
const REST_MS = 250;
/** Maximum number of claims that wait for a place, and of one client or payer: each holds a request open. */
const MAX_WAITING = 1_024;
const MAX_WAITING_EACH = 256;

export interface PlainPlacesOptions {
  readonly network: NetworkId;
  /** Maximum wait for a place before a payment is served. */
  readonly maxWaitMs: number;
}

export interface PlainPlacesModules {
  readonly ledger: Pick<Ledger, "admitPlain" | "walletPauseSeconds">;
  readonly log: Log;
  /** Fires when the engine ends. */
  readonly signal: AbortSignal;
}

type PlaceEnd = Exclude<WalletAdmission, "wait"> | "late" | "unavailable";

/** Claims of one payer that wait, in their order. */
type PayerClaims = Map<SettlementId, (end: PlaceEnd) => void>;

/**
 * Waits for places of payments that run no code, before they are served. An account can fail all that it has in flight by one
 * transfer of its funds, so one that never paid has few places, and one more for each payment that it has settled. A wait is
 * its payer's doing.
 */
export class PlainPlaces {
  readonly #opts: PlainPlacesOptions;
  readonly #modules: PlainPlacesModules;
  readonly #payers = new Map<string, PayerClaims>();
  readonly #places = new Places({ max: () => MAX_WAITING, maxEach: () => MAX_WAITING_EACH });

  constructor(opts: PlainPlacesOptions, modules: PlainPlacesModules) {
    this.#opts = opts;
    this.#modules = modules;
  }

  /**
   * Reserves a place for a claim that has none; the result says why it has none still.
   * @param client as limits count clients; the payer where that is not known
   */
  async reserve(
    payment: PaymentRecord,
    waitMs: number,
    signal: AbortSignal,
    client: string,
  ): Promise<PaymentRefusal | undefined> {
    const release = this.#places.acquire(client);
    const end = typeof release === "string" ? "late" : await this.#placeOf(payment, waitMs, signal).finally(release);
    if (end === "admitted") return undefined;
    const { ledger, log } = this.#modules;
    const { from } = payment.key;
    log.warn({ settlementId: payment.id, payer: from, end }, "payment got no place, and is not served");
    if (end === "late") return { ok: false, code: "PAYMENT_RATE_LIMITED", retryAfterSeconds: 1 };
    if (end === "unavailable") return { ok: false, code: "SETTLEMENT_UNAVAILABLE" };
    return pausedWallet(await ledger.walletPauseSeconds(this.#opts.network, { payer: from, classes: [] }));
  }

  async #placeOf(payment: PaymentRecord, waitMs: number, signal: AbortSignal): Promise<PlaceEnd> {
    const { id, key } = payment;
    const waitingClaims = this.#payers.get(key.from);
    const claims: PayerClaims = waitingClaims ?? new Map();
    if (claims.size >= MAX_WAITING_EACH) return "late";
    const timeout = AbortSignal.timeout(Math.min(waitMs, this.#opts.maxWaitMs));
    const limit = AbortSignal.any([signal, this.#modules.signal, timeout]);
    const { promise, resolve } = Promise.withResolvers<PlaceEnd>();
    const leave = (): void => resolve("late");
    limit.addEventListener("abort", leave, { once: true });
    if (limit.aborted) leave();
    claims.set(id, resolve);
    if (waitingClaims === undefined) {
      this.#payers.set(key.from, claims);
      void this.#askFor(payment, claims);
    }
    try {
      return await promise;
    } finally {
      limit.removeEventListener("abort", leave);
      claims.delete(id);
    }
  }

  /** Asks for the places of one payer's claims until none waits. Never rejects. */
  async #askFor({ key }: PaymentRecord, claims: PayerClaims): Promise<void> {
    const { ledger, log, signal } = this.#modules;
    while (claims.size > 0 && !signal.aborted) {
      try {
        const admissions = await ledger.admitPlain(this.#opts.network, key.from, [...claims.keys()]);
        for (const [id, admission] of admissions) if (admission !== "wait") claims.get(id)?.(admission);
      } catch (error) {
        log.warn({ payer: key.from, code: failureCode(error) }, "no places were given");
        for (const end of claims.values()) end("unavailable");
      }
      await pause(REST_MS, signal);
    }
    this.#payers.delete(key.from);
  }
}
