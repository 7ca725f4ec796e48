import { type Address, AppError } from "@turnpike/base";
import { createPublicClient, erc20Abi, http } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { Signer } from "./types.ts";

const KEY = /^0x[0-9a-fA-F]{64}$/;

/**
 * The signer of a private key.
 * @throws AppError USAGE when the text is no key; the text is not repeated.
 */
export function signerFromKey(privateKey: string): Signer {
  const text = privateKey.trim();
  if (!KEY.test(text)) {
    throw new AppError("USAGE", { message: "The private key is not 0x and 64 hex digits." });
  }
  const account = privateKeyToAccount(text as `0x${string}`);
  return {
    address: account.address,
    signTypedData: (message) => account.signTypedData(message),
  };
}

/** A new random private key. */
export function newPrivateKey(): `0x${string}` {
  return generatePrivateKey();
}

const BALANCE_TIMEOUT_MS = 2_000;

/**
 * Balance of an ERC-20 token, in its smallest unit. Rejects when the node does not answer within two seconds, or when the signal is
 * aborted.
 */
export async function tokenBalance(
  rpcUrl: string,
  asset: Address,
  owner: Address,
  signal?: AbortSignal,
): Promise<bigint> {
  const timeout = AbortSignal.timeout(BALANCE_TIMEOUT_MS);
  // A signal of ours takes the place of viem's own timeout.
  const fetchOptions = { signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]) };
  const transport = http(rpcUrl, { timeout: BALANCE_TIMEOUT_MS, retryCount: 0, fetchOptions });
  const client = createPublicClient({ transport });
  return client.readContract({ address: asset, abi: erc20Abi, functionName: "balanceOf", args: [owner] });
}
