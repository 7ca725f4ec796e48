import { AppError, bytesToHex, isAppError, type NetworkId, sameAddress } from "@turnpike/base";
import { isLowS } from "@turnpike/crypto";
import { BoundedMap } from "../bounded-map.ts";
import { isErc6492, unwrapErc6492 } from "../evm/erc6492.ts";
import type {
  DecodedPayment,
  FundsAccount,
  PayerFundsReading,
  PaymentOption,
  PaymentRefusal,
  Verification,
  Verifier,
} from "../types.ts";
import { VerifierChain } from "./chain.ts";
import { domainSeparator, transferDigest } from "./digest.ts";
import { paymentVerificationSeconds, paymentVerificationsTotal } from "./metrics.ts";
import { chainIdOf, checkNetwork } from "./network-check.ts";
import {
  DEFAULT_MARGIN_SECONDS,
  DEFAULT_MAX_QUEUED,
  DEFAULT_MAX_SIGNATURE_BYTES,
  type VerifierModules,
  type VerifierOptions,
} from "./options.ts";
import { readFunds, refuse } from "./reading.ts";
import { RecoverPool } from "./recover-pool.ts";

/** How far a payer's clock may be ahead. */
const WINDOW_SLACK_SECONDS = 300;

/** Whose signature it is: the payer's own key's, or one that only the chain can vouch for. */
type Signer = "payer" | "unknown";
type FreeVerification = { readonly ok: true; readonly signer: Signer } | PaymentRefusal;

/** What is worked out once for each offered option. */
interface Offer {
  readonly chain: VerifierChain;
  readonly separator: Uint8Array;
  readonly amount: bigint;
}

/**
 * Verifies EIP-3009 payments on EVM chains: free checks first, the signer off the event loop, then one exchange with the
 * chain that concurrent payments share. Reads the newest blocks in the background until it is disposed of.
 */
export class EvmVerifier implements Verifier, AsyncDisposable {
  readonly #opts: VerifierOptions;
  readonly #modules: VerifierModules;
  readonly #marginSeconds: number;
  readonly #maxSignatureBytes: number;
  readonly #pool: RecoverPool;
  readonly #chains = new Map<NetworkId, VerifierChain>();
  readonly #offers = new WeakMap<PaymentOption, Offer>();
  // A facilitator reads an option anew with every request; these are few.
  readonly #separators = new BoundedMap<string, Uint8Array>({ maxEntries: 1_000, ttlMs: Number.POSITIVE_INFINITY });
  // Copies of one payment that come at once are checked once.
  readonly #checking = new Map<string, Promise<Verification>>();
  // Payers that had code lately: only a hint which check to try first.
  readonly #wallets = new BoundedMap<string, true>({ maxEntries: 10_000, ttlMs: 600_000 });

  /** @throws AppError CONFIG_INVALID when a network has no RPC or is not of the form `eip155:<chain id>`. */
  constructor(opts: VerifierOptions, modules: VerifierModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#marginSeconds = opts.marginSeconds ?? DEFAULT_MARGIN_SECONDS;
    this.#maxSignatureBytes = opts.maxSignatureBytes ?? DEFAULT_MAX_SIGNATURE_BYTES;
    this.#pool = new RecoverPool({ workers: opts.workers, maxQueued: opts.maxQueued ?? DEFAULT_MAX_QUEUED }, modules);
    for (const network of opts.networks) {
      if (this.#chains.has(network.network)) continue;
      this.#chains.set(network.network, new VerifierChain(network, opts, modules));
    }
  }

  checkFree(payment: DecodedPayment, known?: Signer): Promise<FreeVerification> {
    return this.#measured("free", () => this.#checkFree(payment, known));
  }

  /**
   * Whether the signature can be the payer's at all: its own key's, or of an account that is, or can become, a wallet.
   * Nothing else is looked at. `signer` is what {@link checkFree} returns for it.
   */
  async checkSigner(payment: DecodedPayment): Promise<FreeVerification> {
    const offer = this.#offerOf(payment.option);
    if (offer === undefined) return refuse("PAYMENT_OPTION_UNKNOWN");
    return this.#measured<FreeVerification>("free", async () => {
      const signer = await this.#signerOf(payment, offer);
      const refused = signer === "unknown" ? await refusalOfJunk(payment, offer.chain) : undefined;
      return refused ?? { ok: true, signer };
    });
  }

  /** `client` is the one that presents the payment, as limits count clients: of checks of wallets it has its share. */
  async checkChain(
    payment: DecodedPayment,
    signer: Signer,
    signal?: AbortSignal,
    client?: string,
  ): Promise<Verification> {
    signal?.throwIfAborted();
    const { option } = payment;
    const key = `${signer} ${option.network} ${option.asset} ${bytesToHex(payment.payloadDigest)}`;
    let shared = this.#checking.get(key);
    if (shared === undefined) {
      shared = this.#measured("chain", () => this.#checkChain(payment, signer, client)).finally(() =>
        this.#checking.delete(key),
      );
      this.#checking.set(key, shared);
    }
    const found = await orAborted(shared, signal);
    return found.ok ? { ...found, payment } : found;
  }

  /** @throws AppError SETTLEMENT_UNAVAILABLE when the chain does not answer, CONFIG_INVALID for an unknown network. */
  async readFunds(account: FundsAccount, nonces: readonly `0x${string}`[]): Promise<PayerFundsReading> {
    return readFunds(account, nonces, this.#chainOf(account.network).access);
  }

  /**
   * Compares every network, or this one, with its configuration; run it before payments are taken.
   * @throws AppError CHAIN_MISMATCH that names the differences; SETTLEMENT_UNAVAILABLE when a chain does not answer.
   */
  async checkNetworks(signal?: AbortSignal, network?: NetworkId): Promise<void> {
    for (const config of this.#opts.networks) {
      if (network !== undefined && config.network !== network) continue;
      const access = this.#chains.get(config.network)?.access;
      if (access !== undefined) await checkNetwork(config, access.multicall3, access.rpc, signal);
    }
  }

  /** Best estimate of a chain's time now, in Unix seconds. @throws AppError CONFIG_INVALID for an unknown network. */
  chainTimeSeconds(network: NetworkId): number {
    return Math.floor(this.#chainOf(network).access.chainTime.nowSeconds());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const chain of this.#chains.values()) chain[Symbol.dispose]();
    await this.#pool[Symbol.asyncDispose]();
  }

  #chainOf(network: NetworkId): VerifierChain {
    const chain = this.#chains.get(network);
    if (chain === undefined) throw new AppError("CONFIG_INVALID", { message: `${network} is not configured.` });
    return chain;
  }

  #offerOf(option: PaymentOption): Offer | undefined {
    const known = this.#offers.get(option);
    if (known !== undefined) return known;
    const { network, asset } = option;
    const chain = this.#chains.get(network);
    const isSold = this.#opts.networks.some((n) => n.network === network && sameAddress(n.asset, asset));
    if (chain === undefined || !isSold) return undefined;
    const offer: Offer = { chain, separator: this.#separatorOf(option), amount: BigInt(option.amount) };
    this.#offers.set(option, offer);
    return offer;
  }

  #separatorOf({ network, asset, extra }: PaymentOption): Uint8Array {
    const key = JSON.stringify([network, asset.toLowerCase(), extra.name, extra.version]);
    const known = this.#separators.get(key, 0);
    if (known !== undefined) return known;
    const made = domainSeparator({ ...extra, chainId: chainIdOf(network), asset });
    this.#separators.set(key, made, 0);
    return made;
  }

  async #checkFree(payment: DecodedPayment, known: Signer | undefined): Promise<FreeVerification> {
    const { authorization, option } = payment;
    const offer = this.#offerOf(option);
    if (offer === undefined) return refuse("PAYMENT_OPTION_UNKNOWN");
    if (!sameAddress(authorization.to, option.payTo)) return refuse("PAYMENT_RECEIVER_MISMATCH");
    if (authorization.value !== offer.amount) return refuse("PAYMENT_VALUE_MISMATCH");
    if (payment.signature.length > this.#maxSignatureBytes) {
      const message = `The signature is longer than ${this.#maxSignatureBytes} bytes.`;
      return { ok: false, code: "PAYMENT_SIGNATURE_INVALID", message };
    }
    const nowSeconds = offer.chain.access.chainTime.nowSeconds();
    if (Number(authorization.validAfter) > nowSeconds) return refuse("PAYMENT_NOT_YET_VALID");
    if (Number(authorization.validBefore) < nowSeconds + this.#marginSeconds) return refuse("PAYMENT_EXPIRED");
    // A window without end would let its payer use the authorization long after the answer was given up.
    if (Number(authorization.validBefore) > nowSeconds + option.maxTimeoutSeconds + WINDOW_SLACK_SECONDS) {
      return refuse("PAYMENT_WINDOW_TOO_LONG");
    }
    return { ok: true, signer: known ?? (await this.#signerOf(payment, offer)) };
  }

  async #signerOf({ signature, authorization }: DecodedPayment, offer: Offer): Promise<Signer> {
    const v = signature[64];
    // No token takes any other form for an account without code.
    if (signature.length !== 65 || (v !== 27 && v !== 28) || !isLowS(signature.subarray(32, 64))) return "unknown";
    const signer = await this.#pool.recover(transferDigest(offer.separator, authorization), signature);
    return signer === authorization.from.toLowerCase() ? "payer" : "unknown";
  }

  async #checkChain(payment: DecodedPayment, signer: Signer, client?: string): Promise<Verification> {
    const offer = this.#offerOf(payment.option);
    if (offer === undefined) return refuse("PAYMENT_OPTION_UNKNOWN");
    const { clock, backOff } = this.#modules;
    const { network } = payment.option;
    const { from } = payment.authorization;
    if (backOff?.refuses({ network, from }) === true) {
      const message = "Several payments of this account could not be settled; pay again in ten minutes.";
      return { ok: false, code: "PAYMENT_SIMULATION_FAILED", message };
    }
    const payer = `${network}:${from.toLowerCase()}`;
    if (signer === "payer" && this.#wallets.get(payer, clock.monotonicMs()) === undefined) {
      const found = await offer.chain.eoa.check(payment);
      if (found !== "code") return found;
      this.#wallets.set(payer, true, clock.monotonicMs());
      return asVerification(await checkWallet(payment, offer, signer, client));
    }
    const refused = signer === "unknown" ? await refusalOfJunk(payment, offer.chain) : undefined;
    if (refused !== undefined) return refused;
    const found = await checkWallet(payment, offer, signer, client);
    if (found !== "eoa") return found;
    this.#wallets.delete(payer);
    return asVerification(await offer.chain.eoa.check(payment));
  }

  async #measured<T extends { readonly ok: true } | PaymentRefusal>(
    step: "free" | "chain",
    run: () => Promise<T>,
  ): Promise<T | PaymentRefusal> {
    const { metrics } = this.#modules;
    const started = performance.now();
    let result = "fault";
    try {
      const found = await run();
      result = found.ok ? "ok" : found.code;
      return found;
    } catch (error) {
      if (!isAppError(error, "OVERLOADED")) throw error;
      result = "OVERLOADED";
      return refuse("OVERLOADED");
    } finally {
      metrics.observe(paymentVerificationSeconds, (performance.now() - started) / 1_000, { step });
      metrics.count(paymentVerificationsTotal, { step, result });
    }
  }
}

function checkWallet(
  payment: DecodedPayment,
  { chain, separator }: Offer,
  signer: Signer,
  client: string | undefined,
): Promise<Verification | "eoa"> {
  return chain.wallet.check(payment, transferDigest(separator, payment.authorization), signer, client);
}

/** Junk must not take the place of a wallet: an account without code, and without a way to it, vouches for no signature. */
async function refusalOfJunk(
  payment: DecodedPayment,
  { wallet, code }: VerifierChain,
): Promise<PaymentRefusal | undefined> {
  const wrapped = unwrapErc6492(payment.signature);
  if (wrapped === undefined && isErc6492(payment.signature)) return refuse("PAYMENT_SIGNATURE_INVALID");
  if (wrapped !== undefined && wallet.allows(wrapped.factory)) return undefined;
  if (await code.hasCode(payment.authorization.from)) return undefined;
  return refuse(wrapped === undefined ? "PAYMENT_SIGNATURE_INVALID" : "PAYMENT_FACTORY_NOT_ALLOWED");
}

/** An account cannot gain and lose its code within two exchanges but by design of its owner. */
function asVerification(result: Verification | "eoa" | "code"): Verification {
  return result === "eoa" || result === "code" ? refuse("PAYMENT_SIMULATION_FAILED") : result;
}

/** The shared check goes on for the others when one of them gives up. */
function orAborted<T>(shared: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return shared;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  shared.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  return promise;
}
