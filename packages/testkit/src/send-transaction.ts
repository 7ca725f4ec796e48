import { randomBytes } from "node:crypto";
import { bytesToHex0x } from "@turnpike/base";
import { devRpc, fundGas } from "@turnpike/localnet";

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
