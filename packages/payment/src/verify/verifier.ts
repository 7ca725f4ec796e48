import { availableParallelism } from "node:os";
import { type Address, AppError, bytesToHex, isAppError, isRecord, type NetworkId, sameAddress } from "@turnpike/base";
import { isLowS } from "@turnpike/crypto";
import { decodeQuantity } from "../evm/abi.ts";
import { isErc6492, unwrapErc6492 } from "../evm/erc6492.ts";
import type { DecodedPayment, PaymentOption, PaymentRefusal, Verification } from "../types.ts";
import { createBoundedMap } from "./bounded-map.ts";
import { createChainClock } from "./chain-time.ts";
import { type CodeReader, createCodeReader } from "./code-reader.ts";
import { domainSeparator, transferDigest } from "./digest.ts";
import { createEoaChecker, type EoaChecker } from "./eoa-checker.ts";
import { chainTimeOffsetSeconds, verificationSeconds, verificationsTotal } from "./metrics.ts";
import { chainIdOf, checkNetwork } from "./network-check.ts";
import type { EvmVerifier, VerifierModules, VerifierNetwork, VerifierOptions } from "./options.ts";
import { type CallSender, type ChainAccess, refuse } from "./reading.ts";
import { createRecoverPool } from "./recover-pool.ts";
import { createWalletChecker, type WalletChecker } from "./wallet-checker.ts";

const MULTICALL3: Address = "0xcA11bde05977b3631167028862bE2a173976CA11";

interface Chain {
  readonly access: ChainAccess;
  readonly eoa: EoaChecker;
  readonly wallet: WalletChecker;
  readonly code: CodeReader;
  /** Wei for one gas in the newest block; undefined before one was read, and on chains without it. */
  baseFee: bigint | undefined;
}

/** How far a payer's clock may be ahead. */
const WINDOW_SLACK_SECONDS = 300;

/** What is worked out once for each offered option. */
interface Offer {
  readonly chain: Chain;
  readonly separator: Uint8Array;
  readonly amount: bigint;
}

/**
 * Verifies payments: free checks first, the signer off the event loop, then one exchange with the chain that
 * concurrent payments share. Reads the newest blocks in the background until it is disposed of.
 * @throws AppError CONFIG_INVALID when a network has no RPC or is not of the form `eip155:<chain id>`.
 */
export function createVerifier(opts: VerifierOptions, modules: VerifierModules): EvmVerifier {
  const { clock, log, metrics } = modules;
  const marginSeconds = opts.marginSeconds ?? 6;
  const workers = opts.workers ?? Math.max(1, availableParallelism() - 1);
  const maxQueued = opts.maxQueued ?? 10_000;
  const pool = createRecoverPool({ workers, maxQueued }, { log, metrics });
  const stop = new AbortController();
  const chains = new Map<NetworkId, Chain>();
  const offers = new WeakMap<PaymentOption, Offer>();
  // A facilitator reads an option anew with every request; these are few.
  const separators = createBoundedMap<string, Uint8Array>({ maxEntries: 1_000, ttlMs: Number.POSITIVE_INFINITY });
  // Copies of one payment that come at once are checked once.
  const checking = new Map<string, Promise<Verification>>();
  // Payers that had code lately: only a hint which check to try first.
  const wallets = createBoundedMap<string, true>({ maxEntries: 10_000, ttlMs: 600_000 });
  const timers: NodeJS.Timeout[] = [];

  for (const config of opts.networks) if (!chains.has(config.network)) chains.set(config.network, openChain(config));

  function openChain(config: VerifierNetwork): Chain {
    chainIdOf(config.network);
    const rpc = modules.rpc.get(config.network);
    if (rpc === undefined) throw new AppError("CONFIG_INVALID", { message: `${config.network} has no RPC URL.` });
    const access: ChainAccess = {
      rpc,
      multicall3: config.multicall3 ?? MULTICALL3,
      chainTime: createChainClock({}, { clock }),
      marginSeconds,
      sender: () => senderOf(config, chain),
    };
    const noCode = createBoundedMap<string, true>({ maxEntries: 10_000, ttlMs: opts.codeCacheMs ?? 5_000 });
    const maxExchanges = opts.maxExchanges ?? 8;
    const factories = opts.networks
      .filter((n) => n.network === config.network)
      .flatMap((n) => n.allowedFactories ?? []);
    const chain: Chain = {
      access,
      eoa: createEoaChecker(
        {
          maxBatch: opts.maxBatch ?? 48,
          maxExchanges,
          maxQueued,
        },
        { access, noCode, clock, metrics },
      ),
      wallet: createWalletChecker(
        {
          allowedFactories: new Set(factories.map((factory) => factory.toLowerCase())),
          walletGas: config.walletGas ?? opts.walletGas ?? 400_000,
          deploymentGas: config.deploymentGas ?? opts.deploymentGas ?? 2_000_000,
          maxChecks: opts.maxWalletChecks ?? 32,
        },
        { access },
      ),
      code: createCodeReader({ maxExchanges, maxQueued }, { access, noCode, clock }),
      baseFee: undefined,
    };
    watch(config.network, chain);
    return chain;
  }

  /** As a settlement would be sent now: room for the base fee to double, as the engine leaves it. */
  function senderOf(config: VerifierNetwork, { baseFee }: Chain): CallSender {
    const [from] = config.relayers ?? opts.relayers ?? [];
    if (from === undefined) return {};
    if (baseFee === undefined) return { from };
    const tip = config.priorityFeeWei ?? opts.priorityFeeWei ?? 0n;
    return { from, maxFeePerGas: hexOf(baseFee * 2n + tip), maxPriorityFeePerGas: hexOf(tip) };
  }

  /** Reads the newest block now and then; more often until one was seen to appear. */
  function watch(network: NetworkId, chain: Chain): void {
    const { access } = chain;
    const pollMs = opts.pollMs ?? 2_000;
    let busy = false;
    let failing = false;
    let round = 0;
    const poll = async (): Promise<void> => {
      if (busy) return;
      busy = true;
      try {
        const reply = await access.rpc.call("eth_getBlockByNumber", ["latest", false], stop.signal);
        const block = reply.ok && isRecord(reply.result) ? reply.result : {};
        const number = decodeQuantity(block.number);
        const timestamp = decodeQuantity(block.timestamp);
        if (number !== undefined && timestamp !== undefined) access.chainTime.sight(number, timestamp);
        chain.baseFee = decodeQuantity(block.baseFeePerGas);
        metrics.set(chainTimeOffsetSeconds, access.chainTime.nowSeconds() - clock.nowMs() / 1_000, { network });
        failing = false;
      } catch (error) {
        if (!stop.signal.aborted && !failing)
          log.warn({ network, error: String(error) }, "newest block cannot be read");
        failing = true;
      } finally {
        busy = false;
      }
    };
    const everyMs = Math.min(pollMs, 500);
    const eachth = Math.max(1, Math.round(pollMs / everyMs));
    const timer = setInterval(() => {
      const eager = !access.chainTime.learnt && round < 60;
      if (eager || round % eachth === 0) void poll();
      round++;
    }, everyMs);
    timer.unref();
    timers.push(timer);
    void poll();
  }

  function separatorOf({ network, asset, extra }: PaymentOption): Uint8Array {
    const key = JSON.stringify([network, asset.toLowerCase(), extra.name, extra.version]);
    const known = separators.get(key, 0);
    if (known !== undefined) return known;
    const made = domainSeparator({ ...extra, chainId: chainIdOf(network), asset });
    separators.set(key, made, 0);
    return made;
  }

  function offerOf(option: PaymentOption): Offer | undefined {
    const known = offers.get(option);
    if (known !== undefined) return known;
    const chain = chains.get(option.network);
    const config = opts.networks.find((n) => n.network === option.network && sameAddress(n.asset, option.asset));
    if (chain === undefined || config === undefined) return undefined;
    const offer: Offer = {
      chain,
      separator: separatorOf(option),
      amount: BigInt(option.amount),
    };
    offers.set(option, offer);
    return offer;
  }

  async function free(
    payment: DecodedPayment,
    known: "payer" | "unknown" | undefined,
  ): Promise<{ readonly ok: true; readonly signer: "payer" | "unknown" } | PaymentRefusal> {
    const { authorization, option } = payment;
    const offer = offerOf(option);
    if (offer === undefined) return refuse("PAYMENT_OPTION_UNKNOWN");
    if (!sameAddress(authorization.to, option.payTo)) return refuse("PAYMENT_RECEIVER_MISMATCH");
    if (authorization.value !== offer.amount) return refuse("PAYMENT_VALUE_MISMATCH");
    const nowSeconds = offer.chain.access.chainTime.nowSeconds();
    if (Number(authorization.validAfter) > nowSeconds) return refuse("PAYMENT_NOT_YET_VALID");
    if (Number(authorization.validBefore) < nowSeconds + marginSeconds) return refuse("PAYMENT_EXPIRED");
    // A window without end would let its payer use the authorization long after the answer was given up.
    if (Number(authorization.validBefore) > nowSeconds + option.maxTimeoutSeconds + WINDOW_SLACK_SECONDS) {
      return refuse("PAYMENT_WINDOW_TOO_LONG");
    }
    return { ok: true, signer: known ?? (await signerOf(payment, offer)) };
  }

  async function signerOf({ signature, authorization }: DecodedPayment, offer: Offer): Promise<"payer" | "unknown"> {
    const v = signature[64];
    // No token takes any other form for an account without code.
    if (signature.length !== 65 || (v !== 27 && v !== 28) || !isLowS(signature.subarray(32, 64))) return "unknown";
    const signer = await pool.recover(transferDigest(offer.separator, authorization), signature);
    return signer === authorization.from.toLowerCase() ? "payer" : "unknown";
  }

  /** Junk must not take the place of a wallet: without code, and without a way to it, nobody can vouch for a signature. */
  async function junk(payment: DecodedPayment, { wallet, code }: Chain): Promise<PaymentRefusal | undefined> {
    const wrapped = unwrapErc6492(payment.signature);
    if (wrapped === undefined && isErc6492(payment.signature)) return refuse("PAYMENT_SIGNATURE_INVALID");
    if (wrapped !== undefined && wallet.allows(wrapped.factory)) return undefined;
    if (await code.hasCode(payment.authorization.from)) return undefined;
    return refuse(wrapped === undefined ? "PAYMENT_SIGNATURE_INVALID" : "PAYMENT_FACTORY_NOT_ALLOWED");
  }

  async function onChain(payment: DecodedPayment, signer: "payer" | "unknown"): Promise<Verification> {
    const offer = offerOf(payment.option);
    if (offer === undefined) return refuse("PAYMENT_OPTION_UNKNOWN");
    const { eoa, wallet } = offer.chain;
    const { from } = payment.authorization;
    if (modules.backOff?.refuses({ network: payment.option.network, from }) === true) {
      const message = "Several payments of this account could not be settled; pay again in ten minutes.";
      return { ok: false, code: "PAYMENT_SIMULATION_FAILED", message };
    }
    const payer = `${payment.option.network}:${from.toLowerCase()}`;
    const askWallet = (): Promise<Verification | "eoa"> =>
      wallet.check(payment, transferDigest(offer.separator, payment.authorization), signer);
    if (signer === "payer" && wallets.get(payer, clock.monotonicMs()) === undefined) {
      const found = await eoa.check(payment);
      if (found !== "code") return found;
      wallets.set(payer, true, clock.monotonicMs());
      return settled(await askWallet());
    }
    const refused = signer === "unknown" ? await junk(payment, offer.chain) : undefined;
    if (refused !== undefined) return refused;
    const found = await askWallet();
    if (found !== "eoa") return found;
    wallets.delete(payer);
    return settled(await eoa.check(payment));
  }

  /** An account cannot gain and lose its code within two exchanges but by design of its owner. */
  function settled(result: Verification | "eoa" | "code"): Verification {
    return result === "eoa" || result === "code" ? refuse("PAYMENT_SIMULATION_FAILED") : result;
  }

  async function measured<T extends { readonly ok: true } | PaymentRefusal>(
    step: "free" | "chain",
    run: () => Promise<T>,
  ): Promise<T | PaymentRefusal> {
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
      metrics.observe(verificationSeconds, (performance.now() - started) / 1_000, { step });
      metrics.count(verificationsTotal, { step, result });
    }
  }

  return {
    checkFree: (payment, known) => measured("free", () => free(payment, known)),
    async checkSigner(payment) {
      const offer = offerOf(payment.option);
      if (offer === undefined) return refuse("PAYMENT_OPTION_UNKNOWN");
      return measured("free", async () => {
        const signer = await signerOf(payment, offer);
        return (signer === "unknown" ? await junk(payment, offer.chain) : undefined) ?? { ok: true, signer };
      });
    },
    async checkChain(payment, signer, signal) {
      signal?.throwIfAborted();
      const { option } = payment;
      const key = `${signer} ${option.network} ${option.asset} ${bytesToHex(payment.payloadDigest)}`;
      let shared = checking.get(key);
      if (shared === undefined) {
        shared = measured("chain", () => onChain(payment, signer)).finally(() => checking.delete(key));
        checking.set(key, shared);
      }
      const found = await orAborted(shared, signal);
      return found.ok ? { ...found, payment } : found;
    },
    async checkNetworks(signal, network) {
      for (const config of opts.networks) {
        if (network !== undefined && config.network !== network) continue;
        const access = chains.get(config.network)?.access;
        if (access !== undefined) await checkNetwork(config, access.multicall3, access.rpc, signal);
      }
    },
    chainTimeSeconds(network) {
      const chain = chains.get(network);
      if (chain === undefined) throw new AppError("CONFIG_INVALID", { message: `${network} is not configured.` });
      return Math.floor(chain.access.chainTime.nowSeconds());
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      for (const timer of timers) clearInterval(timer);
      await pool[Symbol.asyncDispose]();
    },
  };
}

function hexOf(wei: bigint): `0x${string}` {
  return `0x${wei.toString(16)}`;
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
