import { failureCode, isAppError, type Log, type NetworkId } from "@turnpike/base";
import type { EvmRpc } from "../evm/rpc.ts";
import type { Ledger, WalletAdmission, WalletSubjects } from "../ledger-types.ts";
import type { PaymentRecord, PaymentRefusal } from "../types.ts";
import { pausedWallet, readCodes, readSubjects } from "../verify/payer-code.ts";
import { PlainPlaces } from "./plain-places.ts";
import { pause } from "./waiters.ts";

/** Minimum pause until the ledger is asked again; of many, each rests so long that the ledger gets 250 questions a second. */
const REST_MS = 250;
const REST_MS_EACH = 4;
/** Maximum number of claims that wait for a place before they are served: each holds a request open. */
const MAX_WAITING = 256;

/** Pause until a payment that waits beside so many others asks for its place again. */
export function restMs(waiting: number): number {
  return Math.max(REST_MS, waiting * REST_MS_EACH);
}

/** The ledger's answer to a payment that asks for a place. Without `wallet` the chain did not say whose code would run. */
export interface PlaceAnswer {
  readonly admission: WalletAdmission;
  readonly wallet?: WalletSubjects;
}

export interface WalletPlacesOptions {
  readonly network: NetworkId;
  /** Maximum wait for one answer of the chain. */
  readonly chainTimeoutMs: number;
  /** Maximum wait for a place before a payment is served. */
  readonly maxWaitMs: number;
}

export interface WalletPlacesModules {
  readonly rpc: EvmRpc;
  readonly ledger: Pick<Ledger, "admitPlain" | "admitWallet" | "walletPauseSeconds">;
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
  #waiting = 0;

  constructor(opts: WalletPlacesOptions, modules: WalletPlacesModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#plain = new PlainPlaces(opts, modules);
  }

  /**
   * Asks for a place once; its own place is confirmed while its payer's code is the same. With `isShared` no code runs: a payer
   * that has some is left out.
   */
  async ask(payment: PaymentRecord, isShared = false): Promise<PlaceAnswer> {
    const { from } = payment.key;
    const wallet = isShared ? { payer: from, classes: [] } : await this.#walletOf(payment);
    if (wallet === undefined) return { admission: "wait" };
    if (payment.kind === "eoa" && wallet.classes.length === 0) {
      const admissions = await this.#modules.ledger.admitPlain(this.#opts.network, from, [payment.id]);
      return { admission: admissions.get(payment.id) ?? "wait", wallet };
    }
    const admission = await this.#modules.ledger.admitWallet(payment.id, this.#opts.network, wallet);
    return { admission, wallet };
  }

  /** Reserves a place for a claim that is not served yet, after a wait if need be; the result says why it has none. */
  async reserve(payment: PaymentRecord, waitMs: number, signal: AbortSignal): Promise<PaymentRefusal | undefined> {
    if (payment.kind === "eoa") {
      return payment.waits === true ? this.#plain.reserve(payment, waitMs, signal) : undefined;
    }
    const { ledger, log } = this.#modules;
    const { network, maxWaitMs } = this.#opts;
    const limit = AbortSignal.any([signal, this.#modules.signal, AbortSignal.timeout(Math.min(waitMs, maxWaitMs))]);
    const mayWait = this.#waiting < MAX_WAITING;
    this.#waiting++;
    try {
      for (;;) {
        const { admission, wallet } = await this.ask(payment);
        if (admission === "admitted") return undefined;
        if (admission !== "wait" || !mayWait || limit.aborted) {
          log.warn(
            { settlementId: payment.id, ...wallet, admission },
            "wallet payment got no place, and is not served",
          );
          if (admission === "wait" || wallet === undefined) return { ok: false, code: "SETTLEMENT_UNAVAILABLE" };
          return pausedWallet(await ledger.walletPauseSeconds(network, wallet));
        }
        await pause(restMs(this.#waiting), limit);
      }
    } catch (error) {
      if (!isAppError(error)) throw error;
      log.warn({ settlementId: payment.id, code: failureCode(error) }, "wallet payment not admitted");
      return { ok: false, code: "SETTLEMENT_UNAVAILABLE" };
    } finally {
      this.#waiting--;
    }
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
