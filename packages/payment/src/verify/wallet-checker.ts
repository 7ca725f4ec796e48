import {
  type Call3,
  decodeAggregate3,
  encodeAggregate3,
  encodeIsValidSignature,
  encodeTransferBytes,
  type Hex,
  isMagicValue,
} from "../evm/abi.ts";
import { isErc6492, unwrapErc6492, type WrappedSignature } from "../evm/erc6492.ts";
import type { RpcCall, RpcReply } from "../evm/rpc.ts";
import type { Ledger } from "../ledger-types.ts";
import { paymentKey } from "../record.ts";
import type { DecodedPayment, PayerKind, PaymentRefusal, Verification } from "../types.ts";
import { boundGas, type CodeRun } from "./bounded-gas.ts";
import { CheckQueue } from "./check-queue.ts";
import { codeIn, pausedWallet, readSubjects } from "./payer-code.ts";
import {
  blockCalls,
  type ChainAccess,
  callResult,
  faultOf,
  hasCode,
  oddAnswer,
  quantity,
  type Reading,
  ranTooEarly,
  readBlock,
  readSimulation,
  readState,
  refuse,
  replyToSimulation,
  simulateNow,
  stateCalls,
} from "./reading.ts";

interface WalletCheckerOptions {
  /** Factories that may deploy a payer's wallet, in lower case. */
  readonly allowedFactories: ReadonlySet<string>;
  /** Gas that a deployed wallet may use, transfer included. */
  readonly walletGas: number;
  /** Gas for a wallet's deployment and transfer together. */
  readonly deploymentGas: number;
  /** Maximum number of checks at once: each is an exchange of its own, so that a hostile wallet spoils only its own. */
  readonly maxChecks: number;
}

/** What a wallet and its token answered. */
interface WalletAnswer {
  readonly kind: PayerKind;
  /** The wallet says that the signature is its own. */
  readonly accepted: boolean;
  /** The simulated transfer went through. */
  readonly transferred: boolean;
  /** Code of its account; `0x` when it is not deployed yet. */
  readonly code: Hex;
  /** Maximum gas of its settlement. */
  readonly maxGas: number;
  /** Its settlement's calls: as it is sent, and as one that reverts when a part of it fails. */
  readonly run: Pick<CodeRun, "call" | "strictCall" | "read">;
  /** Simulates again, for a payment whose window opens later than the newest block; true when that went through. */
  readonly retry: () => Promise<boolean>;
}

/** Checks that run or wait, as a multiple of those at once. */
const WAITING_SHARE = 4;
// Intrinsic gas, calldata, and Multicall3's own.
const GAS_BASE = 40_000;
const GAS_READS = 200_000;

/** Checks payments of one chain that only the payer's wallet can vouch for (ERC-1271, ERC-6492, EIP-7702). */
export class WalletChecker {
  readonly #opts: WalletCheckerOptions;
  readonly #access: ChainAccess;
  readonly #wallets: Pick<Ledger, "walletPauseSeconds"> | undefined;
  readonly #queue: CheckQueue;

  constructor(
    opts: WalletCheckerOptions,
    modules: { readonly access: ChainAccess; readonly wallets: Pick<Ledger, "walletPauseSeconds"> | undefined },
  ) {
    this.#opts = opts;
    this.#access = modules.access;
    this.#wallets = modules.wallets;
    this.#queue = new CheckQueue({ maxRunning: opts.maxChecks, maxChecks: opts.maxChecks * WAITING_SHARE });
  }

  /** True when this factory, in lower case, may deploy a payer's wallet. */
  allows(factory: string): boolean {
    return this.#opts.allowedFactories.has(factory);
  }

  /** `eoa` when the payer has no code after all and the signature is its own. */
  async check(
    payment: DecodedPayment,
    digest: Uint8Array,
    signer: "payer" | "unknown",
    client?: string,
  ): Promise<Verification | "eoa"> {
    const payer = `payer ${payment.authorization.from.toLowerCase()}`;
    const result = await this.#queue.run({ client, payer }, () => this.#check(payment, digest, signer));
    if (result === "all") return refuse("OVERLOADED");
    return result === "each" ? refuse("PAYMENT_RATE_LIMITED") : result;
  }

  async #check(
    payment: DecodedPayment,
    digest: Uint8Array,
    signer: "payer" | "unknown",
  ): Promise<Verification | "eoa"> {
    const wrapped = unwrapErc6492(payment.signature);
    if (wrapped === undefined && isErc6492(payment.signature)) return refuse("PAYMENT_SIGNATURE_INVALID");
    const signature = wrapped?.signature ?? payment.signature;
    const deployable = wrapped !== undefined && this.allows(wrapped.factory);
    const calls = this.#deployedCalls(payment, digest, signature);
    if (deployable) calls.push(this.#deploymentCall(payment, digest, wrapped));
    const [code, reads, transfer, asked, deployed] = await this.#access.rpc.batch(calls);
    const reading = readReads(reads, this.#access);
    if (hasCode(code, this.#access)) {
      return this.#judge(payment, reading, {
        kind: "erc1271",
        code: codeIn(code, this.#access.rpc),
        maxGas: this.#opts.walletGas + GAS_BASE,
        run: this.#deployedRun(payment, signature),
        accepted: asked?.ok === true && isMagicValue(asked.result),
        transferred: replyToSimulation(transfer, this.#access).ok,
        retry: () => this.#transfersNow(payment, signature),
      });
    }
    if (wrapped === undefined) return signer === "payer" ? "eoa" : refuse("PAYMENT_SIGNATURE_INVALID");
    if (!deployable) return refuse("PAYMENT_FACTORY_NOT_ALLOWED");
    return this.#judge(payment, reading, this.#deploymentAnswer(payment, wrapped, deployed));
  }

  /** What came of deploying the wallet, asking it and transferring, all in one call. */
  #deploymentAnswer(payment: DecodedPayment, wrapped: WrappedSignature, reply: RpcReply | undefined): WalletAnswer {
    if (reply === undefined) throw oddAnswer(this.#access, "eth_call");
    // A node's fault is no answer of the wallet: it throws.
    if (!reply.ok) replyToSimulation(reply, this.#access);
    const [, answer, moved] = (reply.ok ? decodeAggregate3(reply.result, 3) : undefined) ?? [];
    return {
      kind: "erc6492",
      code: "0x",
      maxGas: this.#opts.deploymentGas + GAS_BASE,
      run: this.#deploymentRun(payment, wrapped),
      accepted: answer?.success === true && isMagicValue(answer.returnData),
      transferred: readSimulation(moved?.success === true, moved?.returnData).ok,
      retry: () => Promise.resolve(false),
    };
  }

  async #transfersNow(payment: DecodedPayment, signature: Uint8Array): Promise<boolean> {
    const callData = encodeTransferBytes(payment.authorization, signature);
    const gas = this.#opts.walletGas + GAS_BASE;
    return (await simulateNow(payment, callData, gas, this.#access, this.#access.sender())) !== undefined;
  }

  async #judge(
    payment: DecodedPayment,
    reading: Reading,
    { kind, accepted, transferred, retry, code, maxGas, run }: WalletAnswer,
  ): Promise<Verification> {
    // A wallet may answer its token alone, so its answer counts only where the token refuses. Not so for a wallet that is
    // not deployed yet: without its answer the token would have fallen back to the bare key of an account without code.
    if (!accepted && (!transferred || kind === "erc6492")) return refuse("PAYMENT_SIGNATURE_INVALID");
    const fault = faultOf(payment, reading, this.#access);
    if (fault !== undefined) return fault;
    if (!transferred) {
      if (!ranTooEarly(payment, reading.block)) return refuse("PAYMENT_SIMULATION_FAILED");
      if (!(await retry())) return refuse("PAYMENT_NOT_YET_VALID");
    }
    const pause = await this.#pauseOf(payment, code);
    if (pause !== undefined) return pause;
    const { option, authorization } = payment;
    const { validAfter, validBefore } = authorization;
    const { number, timestampSeconds } = reading.block;
    const bound = await boundGas(
      { ...run, key: paymentKey(option, payment), validAfter, validBefore },
      {
        maxGas: BigInt(maxGas),
        block: { number, timeSeconds: Number(timestampSeconds) },
        multicall3: this.#access.multicall3,
      },
      { rpc: this.#access.rpc },
    );
    if (bound === undefined) return refuse("PAYMENT_SIMULATION_FAILED");
    return {
      ok: true,
      payment,
      kind,
      gas: bound.estimate,
      balance: reading.balance,
      blockNumber: reading.block.number,
      chainTimeSeconds: Math.floor(this.#access.chainTime.nowSeconds()),
    };
  }

  /** Refusal of a payment whose payer, or whose payer's code, has lost gas of settlements lately. */
  async #pauseOf(payment: DecodedPayment, code: Hex): Promise<PaymentRefusal | undefined> {
    if (this.#wallets === undefined) return undefined;
    const key = paymentKey(payment.option, payment);
    const wallet = await readSubjects({ key, signature: payment.signature }, code, this.#access.rpc);
    const retryAfterSeconds = await this.#wallets.walletPauseSeconds(key.network, wallet);
    return retryAfterSeconds === 0 ? undefined : pausedWallet(retryAfterSeconds);
  }

  #deployedRun(payment: DecodedPayment, signature: Uint8Array): WalletAnswer["run"] {
    const data = encodeTransferBytes(payment.authorization, signature);
    const call = { ...this.#access.sender(), to: payment.option.asset, data };
    return { call, strictCall: call, read: (reply) => replyToSimulation(reply, this.#access) };
  }

  /** As the settlement is sent: without asking the wallet beside its transfer. */
  #deploymentRun({ authorization, option }: DecodedPayment, wrapped: WrappedSignature): WalletAnswer["run"] {
    const transfer = encodeTransferBytes(authorization, wrapped.signature);
    const callOf = (allowFailure: boolean): CodeRun["call"] => ({
      ...this.#access.sender(),
      to: this.#access.multicall3,
      data: encodeAggregate3([
        // As in the settlement: an earlier payment may have deployed the wallet by then.
        { target: wrapped.factory, allowFailure: true, callData: wrapped.factoryCalldata },
        { target: option.asset, allowFailure, callData: transfer },
      ]),
    });
    return {
      call: callOf(true),
      strictCall: callOf(false),
      read: (reply) => {
        if (reply?.ok !== true) return replyToSimulation(reply, this.#access);
        const moved = decodeAggregate3(reply.result, 2)?.at(-1);
        if (moved === undefined) throw oddAnswer(this.#access, "aggregate3");
        return readSimulation(moved.success, moved.returnData);
      },
    };
  }

  #deployedCalls(payment: DecodedPayment, digest: Uint8Array, signature: Uint8Array): RpcCall[] {
    const { multicall3 } = this.#access;
    const { from } = payment.authorization;
    const reads = encodeAggregate3([...blockCalls(multicall3), ...stateCalls(payment)]);
    const gas = quantity(this.#opts.walletGas + GAS_BASE);
    const asked = encodeIsValidSignature(digest, signature);
    const sender = this.#access.sender();
    return [
      { method: "eth_getCode", params: [from, "latest"] },
      { method: "eth_call", params: [{ to: multicall3, data: reads, gas: quantity(GAS_READS) }, "latest"] },
      {
        method: "eth_call",
        params: [
          { ...sender, to: payment.option.asset, data: encodeTransferBytes(payment.authorization, signature), gas },
          "latest",
        ],
      },
      { method: "eth_call", params: [{ ...sender, to: from, data: asked, gas }, "latest"] },
    ];
  }

  #deploymentCall(payment: DecodedPayment, digest: Uint8Array, wrapped: WrappedSignature): RpcCall {
    const { authorization, option } = payment;
    const calls: Call3[] = [
      { target: wrapped.factory, allowFailure: true, callData: wrapped.factoryCalldata },
      {
        target: authorization.from,
        allowFailure: true,
        callData: encodeIsValidSignature(digest, wrapped.signature),
      },
      {
        target: option.asset,
        allowFailure: true,
        callData: encodeTransferBytes(authorization, wrapped.signature),
      },
    ];
    const gas = quantity(this.#opts.deploymentGas + GAS_BASE);
    const call = { ...this.#access.sender(), to: this.#access.multicall3, data: encodeAggregate3(calls), gas };
    return { method: "eth_call", params: [call, "latest"] };
  }
}

function readReads(reply: RpcReply | undefined, access: ChainAccess): Reading {
  const results = decodeAggregate3(callResult(reply, access), 4);
  if (results === undefined) throw oddAnswer(access, "aggregate3");
  return readState(results, 2, readBlock(results, 0, access), access);
}
