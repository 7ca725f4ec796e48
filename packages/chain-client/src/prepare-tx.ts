import { AppError } from "@turnpike/base";
import type { Any, auth } from "@turnpike/proto";
import { usualFee } from "./amounts.ts";
import { signTx, type TxOrder, type UnsignedTx } from "./sign-tx.ts";
import type { ChainSigner } from "./signer.ts";
import type { ChainStatus, TxOptions } from "./types.ts";

/** What {@link prepareTx} asks of the node. */
export interface PrepareSource {
  status(signal?: AbortSignal): Promise<Pick<ChainStatus, "chainId">>;
  account(
    address: string,
    signal?: AbortSignal,
  ): Promise<Pick<auth.BaseAccount, "accountNumber" | "sequence"> | undefined>;
  simulate(txBytes: Uint8Array, signal?: AbortSignal): Promise<bigint>;
}

/** The order of a transaction with this sequence. */
export function orderedAt(sequence: bigint, timeoutNanos?: bigint): TxOrder {
  return { kind: "ordered", sequence, ...(timeoutNanos === undefined ? {} : { timeoutNanos }) };
}

/**
 * A transaction of messages before it is signed. What is not given is asked of the node: chain id, account, sequence, gas.
 * @throws AppError TX_FAILED when the account is not there (its address is the detail `missingAccount`), or the messages fail in the simulation; CHAIN_UNREACHABLE
 */
export async function prepareTx(
  source: PrepareSource,
  signer: ChainSigner,
  messages: readonly Any[],
  options: TxOptions,
): Promise<UnsignedTx> {
  const { signal, memo, timeoutHeight, accountNumber, order, timeoutNanos } = options;
  const chainId = options.chainId ?? (await source.status(signal)).chainId;
  const given = accountNumber === undefined || order === undefined ? undefined : { accountNumber, sequence: 0n };
  const account = given ?? (await source.account(signer.address, signal));
  if (account === undefined) {
    throw new AppError("TX_FAILED", {
      message: `${signer.address} has no account on the chain; send it coins first.`,
      detail: { missingAccount: signer.address },
    });
  }
  const shared = {
    messages,
    chainId,
    accountNumber: accountNumber ?? account.accountNumber,
    order: order ?? orderedAt(account.sequence, timeoutNanos),
    ...(memo === undefined ? {} : { memo }),
    ...(timeoutHeight === undefined ? {} : { timeoutHeight }),
  };
  const feeFor = (gas: bigint) =>
    typeof options.fee === "function" ? options.fee(gas) : (options.fee ?? usualFee(gas));
  let gasLimit = options.gasLimit;
  if (gasLimit === undefined) {
    const trial = signTx({ ...shared, gasLimit: 0n, fee: feeFor(1n) }, signer);
    gasLimit = ((await source.simulate(trial, signal)) * (options.gasAdjustment ?? 150n)) / 100n;
  }
  return { ...shared, gasLimit, fee: feeFor(gasLimit) };
}
