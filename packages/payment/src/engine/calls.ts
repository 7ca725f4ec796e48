import { type Address, AppError } from "@turnpike/base";
import {
  type BatchTransfer,
  type Call3,
  encodeAggregate3,
  encodeSettle,
  encodeTransferBytes,
  encodeTransferVrs,
  type Hex,
} from "../evm/abi.ts";
import { unwrapErc6492 } from "../evm/erc6492.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
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

/** Sender and contracts of a {@link settlementCall}. */
export interface CallContracts {
  readonly relayer: Address;
  readonly multicall3: Address;
  /**
   * Gas limit of each transfer by the contract SettlementBatch, which leaves payers with code out; undefined for a call
   * without that contract.
   */
  readonly gasEach: bigint | undefined;
}

/** Intrinsic gas, Multicall3's own, and a margin. */
const BASE_GAS = 40_000n;
/**
 * Gas of each transfer through a contract, beside its own limit: its calldata (320 bytes at 16 gas), and what SettlementBatch
 * uses and keeps back for it, of which a 64th of the limit (EIP-150).
 */
const SHARED_GAS = 12_000n;

/**
 * The call that settles these payments: plain ones go through SettlementBatch where that is used. Else one goes to its
 * token directly, and several go through Multicall3 with failures allowed. A wallet that is not deployed is deployed
 * first. No payment at all is an empty call to `relayer`: it only uses the nonce up.
 */
export function settlementCall(payments: readonly PaymentRecord[], contracts: CallContracts): SettlementCall {
  const { relayer, multicall3, gasEach } = contracts;
  const [first, ...others] = payments;
  if (first === undefined) return { to: relayer, data: "0x" };
  if (gasEach !== undefined) {
    return { to: SETTLEMENT_BATCH_ADDRESS, data: encodeSettle(gasEach, payments.map(batchTransfer)) };
  }
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

/** Gas limit of {@link settlementCall} for payers of these kinds; `isShared`: by a contract that takes several. */
export function settlementGas(kinds: readonly PayerKind[], gas: GasPolicy, isShared = kinds.length > 1): bigint {
  const sharedGas = isShared ? SHARED_GAS * BigInt(kinds.length) : 0n;
  return kinds.reduce((sum, kind) => {
    return sum + (kind === "eoa" ? gas.perTransfer : kind === "erc1271" ? gas.perWallet : gas.perDeployment);
  }, BASE_GAS + sharedGas);
}

/** Maximum number of plain payments whose {@link settlementGas} is not above a transaction's. */
export function maxPayments(transactionGas: bigint, { perTransfer }: Pick<GasPolicy, "perTransfer">): number {
  return Math.max(1, Number((transactionGas - BASE_GAS) / (perTransfer + SHARED_GAS)));
}

function transferOf({ key, payTo, value, validAfter, validBefore }: PaymentRecord): BatchTransfer["fields"] {
  return { from: key.from, to: payTo, value, validAfter, validBefore, nonce: key.nonce };
}

/** @throws AppError INTERNAL for a signature that is not of a plain account. */
function plainSignature({ signature }: PaymentRecord): Uint8Array {
  if (signature.length === 65) return signature;
  throw new AppError("INTERNAL", { detail: { signatureLength: signature.length } });
}

function batchTransfer(payment: PaymentRecord): BatchTransfer {
  return { token: payment.key.asset, fields: transferOf(payment), signature: plainSignature(payment) };
}

function callsOf(payment: PaymentRecord, allowFailure = true): readonly Call3[] {
  const { key, signature, kind } = payment;
  const fields = transferOf(payment);
  const transfer = (callData: Hex): Call3 => ({ target: key.asset, allowFailure, callData });
  if (kind === "eoa") return [transfer(encodeTransferVrs(fields, plainSignature(payment)))];
  const wrapped = unwrapErc6492(signature);
  if (wrapped === undefined) return [transfer(encodeTransferBytes(fields, signature))];
  const inner = transfer(encodeTransferBytes(fields, wrapped.signature));
  if (kind === "erc1271") return [inner];
  // Some factories revert when the wallet is there already, as of an earlier payment.
  return [{ target: wrapped.factory, allowFailure: true, callData: wrapped.factoryCalldata }, inner];
}
