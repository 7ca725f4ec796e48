import {
  type Call3,
  decodeAggregate3,
  encodeAggregate3,
  encodeIsValidSignature,
  encodeTransferBytes,
  isMagicValue,
} from "../evm/abi.ts";
import { isErc6492, unwrapErc6492, type WrappedSignature } from "../evm/erc6492.ts";
import type { RpcCall, RpcReply } from "../evm/rpc.ts";
import type { DecodedPayment, PayerKind, Verification } from "../types.ts";
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

/** Checks payments that only the payer's wallet can vouch for (ERC-1271, ERC-6492, EIP-7702). */
export interface WalletChecker {
  /** `eoa` when the payer has no code after all and the signature is its own. */
  check(payment: DecodedPayment, digest: Uint8Array, signer: "payer" | "unknown"): Promise<Verification | "eoa">;
  /** True when this factory, in lower case, may deploy a payer's wallet. */
  allows(factory: string): boolean;
}

/** Options of {@link createWalletChecker}. */
export interface WalletCheckerOptions {
  /** Factories that may deploy a payer's wallet, in lower case. */
  readonly allowedFactories: ReadonlySet<string>;
  /** Gas that a deployed wallet may use, transfer included. */
  readonly walletGas: number;
  /** Gas for a wallet's deployment and transfer together. */
  readonly deploymentGas: number;
  /** Most checks at once: each is an exchange of its own, so that a hostile wallet spoils nobody else's. */
  readonly maxChecks: number;
}

// Intrinsic gas, calldata, and Multicall3's own.
const GAS_BASE = 40_000;
const GAS_READS = 200_000;

/** Makes the checker of one chain. */
export function createWalletChecker(
  opts: WalletCheckerOptions,
  modules: { readonly access: ChainAccess },
): WalletChecker {
  const { access } = modules;
  let running = 0;

  async function run(
    payment: DecodedPayment,
    digest: Uint8Array,
    signer: "payer" | "unknown",
  ): Promise<Verification | "eoa"> {
    const wrapped = unwrapErc6492(payment.signature);
    if (wrapped === undefined && isErc6492(payment.signature)) return refuse("PAYMENT_SIGNATURE_INVALID");
    const signature = wrapped?.signature ?? payment.signature;
    const deployable = wrapped !== undefined && opts.allowedFactories.has(wrapped.factory);
    const calls = deployedCalls(payment, digest, signature);
    if (deployable) calls.push(deploymentCall(payment, digest, wrapped));
    const [code, reads, transfer, asked, deployed] = await access.rpc.batch(calls);
    const reading = readReads(reads);
    if (hasCode(code, access)) {
      return judge(payment, reading, "erc1271", {
        accepted: asked?.ok === true && isMagicValue(asked.result),
        transfer: () => replyToSimulation(transfer, access),
        retry: async () => {
          const callData = encodeTransferBytes(payment.authorization, signature);
          return (
            (await simulateNow(payment, callData, opts.walletGas + GAS_BASE, access, access.sender())) !== undefined
          );
        },
      });
    }
    if (wrapped === undefined) return signer === "payer" ? "eoa" : refuse("PAYMENT_SIGNATURE_INVALID");
    if (!deployable) return refuse("PAYMENT_FACTORY_NOT_ALLOWED");
    if (deployed === undefined) throw oddAnswer(access, "eth_call");
    if (!deployed.ok) replyToSimulation(deployed, access);
    const results = deployed.ok ? decodeAggregate3(deployed.result, 3) : undefined;
    const [, answer, moved] = results ?? [];
    return judge(payment, reading, "erc6492", {
      accepted: answer?.success === true && isMagicValue(answer.returnData),
      transfer: () => readSimulation(moved?.success === true, moved?.returnData),
      retry: () => Promise.resolve(false),
    });
  }

  async function judge(
    payment: DecodedPayment,
    reading: Reading,
    kind: PayerKind,
    wallet: {
      readonly accepted: boolean;
      readonly transfer: () => { readonly ok: boolean };
      readonly retry: () => Promise<boolean>;
    },
  ): Promise<Verification> {
    const { ok } = wallet.transfer();
    // A wallet may answer its token alone, so its word counts only where the token refuses. Not so for a wallet that is
    // not there yet: without its word the token would have fallen back to the bare key of an account without code.
    if (!wallet.accepted && (!ok || kind === "erc6492")) return refuse("PAYMENT_SIGNATURE_INVALID");
    const fault = faultOf(payment, reading, access);
    if (fault !== undefined) return fault;
    if (!ok) {
      if (!ranTooEarly(payment, reading.block)) return refuse("PAYMENT_SIMULATION_FAILED");
      if (!(await wallet.retry())) return refuse("PAYMENT_NOT_YET_VALID");
    }
    return {
      ok: true,
      payment,
      kind,
      balance: reading.balance,
      blockNumber: reading.block.number,
      chainTimeSeconds: Math.floor(access.chainTime.nowSeconds()),
    };
  }

  function readReads(reply: RpcReply | undefined): Reading {
    const results = decodeAggregate3(callResult(reply, access), 4);
    if (results === undefined) throw oddAnswer(access, "aggregate3");
    return readState(results, 2, readBlock(results, 0, access), access);
  }

  function deployedCalls(payment: DecodedPayment, digest: Uint8Array, signature: Uint8Array): RpcCall[] {
    const { from } = payment.authorization;
    const reads = encodeAggregate3([...blockCalls(access.multicall3), ...stateCalls(payment)]);
    const gas = quantity(opts.walletGas + GAS_BASE);
    const asked = encodeIsValidSignature(digest, signature);
    const sender = access.sender();
    return [
      { method: "eth_getCode", params: [from, "latest"] },
      { method: "eth_call", params: [{ to: access.multicall3, data: reads, gas: quantity(GAS_READS) }, "latest"] },
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

  function deploymentCall(payment: DecodedPayment, digest: Uint8Array, wrapped: WrappedSignature): RpcCall {
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
    const gas = quantity(opts.deploymentGas + GAS_BASE);
    const call = { ...access.sender(), to: access.multicall3, data: encodeAggregate3(calls), gas };
    return { method: "eth_call", params: [call, "latest"] };
  }

  return {
    allows: (factory) => opts.allowedFactories.has(factory),
    async check(payment, digest, signer) {
      if (running >= opts.maxChecks) return refuse("OVERLOADED");
      running++;
      try {
        return await run(payment, digest, signer);
      } finally {
        running--;
      }
    },
  };
}
