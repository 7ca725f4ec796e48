import { type Address, AppError } from "@turnpike/base";
import { type Call3, encodeAggregate3, encodeTransferBytes, encodeTransferVrs, type Hex } from "../evm/abi.ts";
import { unwrapErc6492 } from "../evm/erc6492.ts";
import type { PayerKind, PaymentRecord } from "../types.ts";

/** A transaction's target and calldata. */
export interface SettlementCall {
  readonly to: Address;
  readonly data: Hex;
}

/** Gas limits of one settlement transaction. */
export interface GasPolicy {
  readonly perTransfer: bigint;
  readonly perWallet: bigint;
  readonly perDeployment: bigint;
}

/** Intrinsic gas, Multicall3's own, and a margin. */
const BASE_GAS = 40_000n;

/**
 * The call that settles these payments: one goes to its token directly, several go through Multicall3 with failures
 * allowed, a wallet that is not deployed is deployed first. No payment at all is an empty call to `relayer`: it only
 * uses the nonce up.
 */
export function settlementCall(
  payments: readonly PaymentRecord[],
  multicall3: Address,
  relayer: Address,
): SettlementCall {
  const [first, ...others] = payments;
  if (first === undefined) return { to: relayer, data: "0x" };
  const calls = payments.flatMap((payment) => callsOf(payment));
  const [only] = calls;
  if (others.length === 0 && calls.length === 1 && only !== undefined) return { to: only.target, data: only.callData };
  return { to: multicall3, data: encodeAggregate3(calls) };
}

/** The {@link settlementCall} of one payment, as a call that reverts when its transfer fails. */
export function strictCall(payment: PaymentRecord, multicall3: Address): SettlementCall {
  const calls = callsOf(payment, false);
  const [only, ...others] = calls;
  if (only !== undefined && others.length === 0) return { to: only.target, data: only.callData };
  return { to: multicall3, data: encodeAggregate3(calls) };
}

/** Gas limit of {@link settlementCall} for payers of these kinds. */
export function settlementGas(kinds: readonly PayerKind[], gas: GasPolicy): bigint {
  return kinds.reduce((sum, kind) => {
    return sum + (kind === "eoa" ? gas.perTransfer : kind === "erc1271" ? gas.perWallet : gas.perDeployment);
  }, BASE_GAS);
}

function callsOf(payment: PaymentRecord, allowFailure = true): readonly Call3[] {
  const { key, payTo, value, validAfter, validBefore, signature, kind } = payment;
  const fields = { from: key.from, to: payTo, value, validAfter, validBefore, nonce: key.nonce };
  const transfer = (callData: Hex): Call3 => ({ target: key.asset, allowFailure, callData });
  if (kind === "eoa") {
    if (signature.length !== 65) throw new AppError("INTERNAL", { detail: { signatureLength: signature.length } });
    return [transfer(encodeTransferVrs(fields, signature))];
  }
  const wrapped = unwrapErc6492(signature);
  if (wrapped === undefined) return [transfer(encodeTransferBytes(fields, signature))];
  const inner = transfer(encodeTransferBytes(fields, wrapped.signature));
  if (kind === "erc1271") return [inner];
  // Some factories revert when the wallet is there already, as of an earlier payment.
  return [{ target: wrapped.factory, allowFailure: true, callData: wrapped.factoryCalldata }, inner];
}
