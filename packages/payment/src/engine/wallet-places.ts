import { type Clock, failureCode, isAppError, type Log, type NetworkId } from "@turnpike/base";
import { BoundedMap } from "../bounded-map.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import type { Ledger, WalletBound, WalletSubjects } from "../ledger-types.ts";
import type { PaymentRecord, PaymentRefusal } from "../types.ts";
import { pausedWallet, readCodes, readSubjects, waitingWallet } from "../verify/payer-code.ts";
import { type PlaceAnswer, PlaceQueue } from "./place-queue.ts";
import { PlainPlaces } from "./plain-places.ts";

/** Minimum pause until the ledger is asked again; of many, each rests so long that the ledger gets 250 questions a second. */
const REST_MS = 250;
const REST_MS_EACH = 4;
/** Time for which one look says what the payments of a payer wait for. */
const LOOK_MS = 500;

/** Pause until a payment that waits beside so many others asks for its place again. */
export function restMs(waiting: number): number {
  return Math.max(REST_MS, waiting * REST_MS_EACH);
}

export interface WalletPlacesOptions {
  readonly network: NetworkId;
  /** Maximum wait for one answer of the chain. */
  readonly chainTimeoutMs: number;
  /** Maximum wait for a place before a payment is served. */
  readonly maxWaitMs: number;
}

export interface WalletPlacesModules {
  readonly rpc: Pick<EvmRpc, "host" | "batch">;
  readonly ledger: Pick<Ledger, "admitPlain" | "admitWallet" | "walletBound" | "walletPauseSeconds">;
  readonly clock: Clock;
  readonly log: Log;
  /** Fires when the engine ends. */
  readonly signal: AbortSignal;
}

/**
 * Places of one network's payments whose settlement runs their payer's code, which all processes share in the ledger. A place
 * is reserved before the payment is served, so that no supplier works for a payment that is then refused one, and confirmed
 * before its settlement is signed, since the code may have changed. It is free when the claim has ended: settled, released, or
 * released with its process.
 */
export class WalletPlaces {
  readonly #opts: WalletPlacesOptions;
  readonly #modules: WalletPlacesModules;
  readonly #plain: PlainPlaces;
  readonly #queue: PlaceQueue;
  readonly #bounds = new BoundedMap<string, Promise<WalletBound | undefined>>({ maxEntries: 1_000, ttlMs: LOOK_MS });

  constructor(opts: WalletPlacesOptions, modules: WalletPlacesModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#plain = new PlainPlaces(opts, modules);
    this.#queue = new PlaceQueue({
      ask: (payment, wallet) => (wallet === undefined ? this.ask(payment) : this.#admit(payment, wallet)),
      log: modules.log,
      signal: modules.signal,
    });
  }

  /**
   * Asks for a place once; its own place is confirmed while its payer's code is the same. With `isShared` no code runs: a payer
   * that has some is left out.
   */
  async ask(payment: PaymentRecord, isShared = false): Promise<PlaceAnswer> {
    const { from } = payment.key;
    const wallet = isShared ? { payer: from, classes: [] } : await this.#walletOf(payment);
    if (wallet === undefined) return { admission: "wait" };
    if (payment.kind !== "eoa" || wallet.classes.length > 0) return this.#admit(payment, wallet);
    const admissions = await this.#modules.ledger.admitPlain(this.#opts.network, from, [payment.id]);
    return { admission: admissions.get(payment.id) ?? "wait", wallet };
  }

  /**
   * Reserves a place for a claim that is not served yet, after a wait if need be; the result says why it has none. A wait that
   * its payer or its code causes is that payer's: it ends in PAYMENT_RATE_LIMITED, at once where many wait already.
   */
  async reserve(
    payment: PaymentRecord,
    waitMs: number,
    signal: AbortSignal,
    client?: string,
  ): Promise<PaymentRefusal | undefined> {
    if (payment.kind === "eoa") {
      if (payment.waits !== true) return undefined;
      return this.#plain.reserve(payment, waitMs, signal, client ?? payment.key.from);
    }
    const { log, signal: stopping } = this.#modules;
    try {
      const first = await this.ask(payment);
      if (first.admission !== "wait") return await this.#refusalOf(payment, first);
      const { wallet } = first;
      const bound = wallet && (await this.#boundOf(wallet));
      const limit = AbortSignal.any([
        signal,
        stopping,
        AbortSignal.timeout(Math.max(0, Math.min(waitMs, this.#opts.maxWaitMs))),
      ]);
      const last = await this.#queue.wait({ payment, wallet, bound, client }, limit);
      if (last !== undefined && last.admission !== "wait") return await this.#refusalOf(payment, last);
      log.warn({ settlementId: payment.id, ...wallet, bound }, "wallet payment got no place, and is not served");
      return bound === undefined || stopping.aborted ? { ok: false, code: "SETTLEMENT_UNAVAILABLE" } : waitingWallet();
    } catch (error) {
      if (!isAppError(error)) throw error;
      log.warn({ settlementId: payment.id, code: failureCode(error) }, "wallet payment not admitted");
      return { ok: false, code: "SETTLEMENT_UNAVAILABLE" };
    }
  }

  async #admit(payment: PaymentRecord, wallet: WalletSubjects): Promise<PlaceAnswer> {
    const admission = await this.#modules.ledger.admitWallet(payment.id, this.#opts.network, wallet);
    return { admission, wallet };
  }

  /** Undefined for a payment that is admitted; else the refusal of one that will not be. */
  async #refusalOf(payment: PaymentRecord, { admission, wallet }: PlaceAnswer): Promise<PaymentRefusal | undefined> {
    if (admission === "admitted" || wallet === undefined) return undefined;
    const { ledger, log } = this.#modules;
    log.warn({ settlementId: payment.id, ...wallet, admission }, "wallet payment got no place, and is not served");
    return pausedWallet(await ledger.walletPauseSeconds(this.#opts.network, wallet));
  }

  #boundOf(wallet: WalletSubjects): Promise<WalletBound | undefined> {
    const nowMs = this.#modules.clock.monotonicMs();
    const name = [wallet.payer, ...wallet.classes].join(" ");
    const shared = this.#bounds.get(name, nowMs);
    if (shared !== undefined) return shared;
    const look = this.#modules.ledger.walletBound(this.#opts.network, wallet);
    look.catch(() => this.#bounds.delete(name));
    this.#bounds.set(name, look, nowMs);
    return look;
  }

  /** The payer's code now; undefined when the chain did not say. */
  async #walletOf(payment: PaymentRecord): Promise<WalletSubjects | undefined> {
    const { rpc, log, signal } = this.#modules;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(this.#opts.chainTimeoutMs)]);
    const { from } = payment.key;
    try {
      const code = (await readCodes([from], rpc, limit)).get(from) ?? "0x";
      return await readSubjects(payment, code, rpc, limit);
    } catch (error) {
      if (!isAppError(error, "SETTLEMENT_UNAVAILABLE")) throw error;
      log.warn({ payer: from, reason: error.detail.reason }, "a payer's code could not be read yet");
      return undefined;
    }
  }
}
