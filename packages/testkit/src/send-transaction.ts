import { randomBytes } from "node:crypto";
import { bytesToHex0x } from "@turnpike/base";
import { devRpc, fundGas } from "@turnpike/localnet";
import { eventually } from "./eventually.ts";

/** Receipt of a mined transaction, as far as tests look. */
export interface TransactionReceipt {
  readonly status: string;
  readonly contractAddress: `0x${string}`;
  readonly transactionHash: `0x${string}`;
  readonly logs: readonly { readonly address: string; readonly topics: readonly string[]; readonly data: string }[];
}

/**
 * Sends a transaction to a development chain from an account that nothing else uses, and resolves with its hash. Two
 * transactions of one account that are sent at once may be given the same nonce, and then the chain refuses one.
 */
export async function sendFromNewAccount(
  rpcUrl: string,
  transaction: Readonly<Record<string, unknown>>,
): Promise<string> {
  const from = bytesToHex0x(randomBytes(20));
  await fundGas(rpcUrl, from, 10n ** 18n);
  await devRpc(rpcUrl, "anvil_impersonateAccount", [from]);
  return String(await devRpc(rpcUrl, "eth_sendTransaction", [{ from, ...transaction }]));
}

/** As {@link sendFromNewAccount}, and resolves with the receipt when the transaction is in a block. */
export async function sendMined(
  rpcUrl: string,
  transaction: Readonly<Record<string, unknown>>,
): Promise<TransactionReceipt> {
  const hash = await sendFromNewAccount(rpcUrl, transaction);
  return eventually(`a receipt of ${hash}`, async () => {
    const receipt = await devRpc(rpcUrl, "eth_getTransactionReceipt", [hash]);
    return (receipt as TransactionReceipt | null) ?? undefined;
  });
}
