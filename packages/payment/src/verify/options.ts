import type { Address, Clock, Log, Metrics, NetworkId } from "@turnpike/base";
import type { EvmRpc } from "../evm/rpc.ts";
import type { Ledger } from "../ledger-types.ts";
import type { BackOff } from "./back-off.ts";

/** Default of {@link VerifierOptions.marginSeconds}. */
export const DEFAULT_MARGIN_SECONDS = 6;
/** Default of {@link VerifierOptions.maxSignatureBytes}. */
export const DEFAULT_MAX_SIGNATURE_BYTES = 2_048;
/** Default of {@link VerifierOptions.maxQueued}. */
export const DEFAULT_MAX_QUEUED = 10_000;

/** One network and one token of it that payments are taken in. */
export interface VerifierNetwork {
  readonly network: NetworkId;
  readonly asset: Address;
  /** EIP-712 domain name of the token. */
  readonly name: string;
  /** EIP-712 domain version of the token. */
  readonly version: string;
  readonly decimals: number;
  /** Contract that batches reads; that of a network's first entry counts. */
  readonly multicall3: Address;
  /** Factories that may deploy a payer's wallet (ERC-6492). */
  readonly allowedFactories: readonly Address[];
  /** Gas that a deployed wallet's transfer may use, as much as the settlement allows it; that of a network's first entry counts. */
  readonly walletGas: number;
  /** The same for deploying a wallet and its transfer. */
  readonly deploymentGas: number;
  /** First tip of a settlement for one gas, in wei; that of a network's first entry counts. */
  readonly priorityFeeWei: bigint;
  /**
   * Accounts that send settlements; those of a network's first entry count. Contract wallets are asked as if the first of
   * them did, at the chain's gas price: a wallet could otherwise agree in simulations only. Without one they are asked
   * without a sender.
   */
  readonly relayers: readonly Address[];
}

/** How payments are verified, and on which networks. */
export interface VerifierOptions {
  /** Several entries may share a network. */
  readonly networks: readonly VerifierNetwork[];
  /** A payment must be valid for at least this long after its verification; 6 by default. */
  readonly marginSeconds?: number;
  /** Longest signature, all of which is sent to the chain; 2,048 bytes by default. */
  readonly maxSignatureBytes?: number;
  /** Threads that recover signers; 0 works on the event loop. */
  readonly workers: number;
  /** Most signatures, and most verifications a network, that wait; 10,000 by default. */
  readonly maxQueued?: number;
  /** Most payments in one exchange with the chain; 48 by default, so that each fits one JSON-RPC batch of 100. */
  readonly maxBatch?: number;
  /** Most exchanges with one chain at once; 8 by default. */
  readonly maxExchanges?: number;
  /** Most checks of contract wallets of one network at once; 32 by default. */
  readonly maxWalletChecks?: number;
  /** How long "this account has no code" is believed; 5,000 by default. */
  readonly codeCacheMs?: number;
  /** How often the newest block is read; 2,000 by default. */
  readonly pollMs?: number;
}

/** The verifier owns none of these. */
export interface VerifierModules {
  /** One for each network. */
  readonly rpc: ReadonlyMap<NetworkId, EvmRpc>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Payers that are refused for a while, since the settlement of their payments failed; none by default. */
  readonly backOff?: Pick<BackOff, "refuses">;
  /** Says which wallets are refused for a while, since their settlements lost gas; none by default. */
  readonly wallets?: Pick<Ledger, "walletPauseSeconds">;
}
