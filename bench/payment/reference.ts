import { bytesToHex0x } from "@turnpike/base";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { createWalletClient, http, publicActions, type Transport } from "viem";
import { nonceManager, privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";

/** Options of {@link createReferenceFacilitator}. */
export interface ReferenceOptions {
  readonly privateKey: Uint8Array;
  readonly transport: Transport;
  /** viem's nonce manager; without it concurrent settlements take each other's nonces. */
  readonly managedNonces: boolean;
  /** How often viem asks for receipts; its default when undefined. */
  readonly pollMs?: number;
}

/** The reference facilitator, put together as its documentation does, on viem. */
export function createReferenceFacilitator(options: ReferenceOptions): x402Facilitator {
  const account = privateKeyToAccount(
    bytesToHex0x(options.privateKey),
    options.managedNonces ? { nonceManager } : undefined,
  );
  const client = createWalletClient({
    account,
    chain: baseSepolia,
    transport: options.transport,
    ...(options.pollMs === undefined ? {} : { pollingInterval: options.pollMs }),
  }).extend(publicActions);
  const signer = toFacilitatorEvmSigner({
    address: account.address,
    getCode: (args) => client.getCode(args),
    readContract: (args) => client.readContract({ ...args, args: args.args ?? [] }),
    verifyTypedData: (args) => client.verifyTypedData(args as Parameters<typeof client.verifyTypedData>[0]),
    writeContract: (args) => client.writeContract(args as Parameters<typeof client.writeContract>[0]),
    sendTransaction: (args) => client.sendTransaction(args),
    waitForTransactionReceipt: (args) => client.waitForTransactionReceipt(args),
  });
  return new x402Facilitator().register(`eip155:${baseSepolia.id}`, new ExactEvmScheme(signer));
}

/**
 * viem over HTTP, without its own retries: an error is counted, not hidden. `batched` puts calls that are made at once
 * into one JSON-RPC batch, as our own client does.
 */
export const referenceHttp = (url: string, batched: boolean): Transport =>
  http(url, { retryCount: 0, timeout: 60_000, batch: batched });
