import { type Address, AppError, hexToBytes, type NetworkId } from "@turnpike/base";
import type { Config, NetworkConfig, PrivateKey } from "@turnpike/config";
import {
  chainIdOf,
  createEvmRpc,
  type EngineNetwork,
  type EngineOptions,
  type EvmRpc,
  type RemoteSettlerOptions,
  type VerifierNetwork,
  type VerifierOptions,
} from "@turnpike/payment";
import type { LedgerRole } from "./ledger.ts";
import type { PartModules } from "./modules.ts";

/** Gas prices of the configuration are in gwei, with a fraction. */
const gweiToWei = (gwei: number): bigint => BigInt(Math.round(gwei * 1_000_000_000));

const idOf = (network: NetworkConfig): NetworkId => network.network as NetworkId;

/** The configuration's networks, each chain once: several tokens of one chain say the same of it. */
function chains(config: Config): NetworkConfig[] {
  const byId = new Map<string, NetworkConfig>();
  for (const network of config.payment.networks) if (!byId.has(network.network)) byId.set(network.network, network);
  return [...byId.values()];
}

/** Slowest polling of a chain: a quarter of its block time, at most a second. */
function pollMs(config: Config): number {
  const fastest = Math.min(...config.payment.networks.map(({ blockTimeSeconds }) => blockTimeSeconds), 4);
  return Math.max(50, Math.min(1_000, Math.round(fastest * 250)));
}

/** @throws AppError CONFIG_INVALID when there is no network to be paid on. */
export function requireNetworks(config: Config, role: LedgerRole): void {
  if (config.payment.networks.length === 0) {
    const otherwise = role === "gateway" ? ", or set payment.mode to none to sell nothing" : "";
    throw new AppError("CONFIG_INVALID", {
      message: `payment.networks: empty; name the network, token and account that you are paid on${otherwise}.`,
    });
  }
}

/** One connection for each chain. */
export function openChains(
  config: Config,
  modules: Pick<PartModules, "log" | "metrics">,
): ReadonlyMap<NetworkId, EvmRpc> {
  const timeoutMs = config.payment.rpcTimeoutMs;
  return new Map(
    chains(config).map((network) => {
      const opts = { urls: network.rpcUrls, timeoutMs, expectedChainId: chainIdOf(network.network) };
      return [idOf(network), createEvmRpc(opts, modules)];
    }),
  );
}

/** Options of the verifier; contract wallets are asked as if the first of `relayers` did. */
export function verifierOptions(config: Config, relayers: readonly Address[] = []): VerifierOptions {
  return {
    networks: config.payment.networks.map(
      (network): VerifierNetwork => ({
        network: idOf(network),
        asset: network.asset,
        name: network.name,
        version: network.version,
        decimals: network.decimals,
        multicall3: network.multicall3,
        allowedFactories: network.allowedFactories,
      }),
    ),
    workers: config.payment.verifyThreads,
    relayers,
    priorityFeeWei: gweiToWei(config.payment.relayer.maxPriorityFeePerGasGwei),
    // as much as the settlement allows: see engineOptions
    walletGas: config.payment.relayer.gasPerWallet,
    deploymentGas: config.payment.relayer.gasPerDeployment,
  };
}

/** Options of the settlement engine. @throws AppError CONFIG_INVALID when there is no key to send with. */
export function engineOptions(config: Config, keys: readonly PrivateKey[], keysPath: string): EngineOptions {
  const { relayer } = config.payment;
  const relayerKeys = keys.flatMap((key) => hexToBytes(key, 32) ?? []);
  if (relayerKeys.length === 0) {
    throw new AppError("CONFIG_INVALID", {
      message: `${keysPath}: there is no key to send settlements with; make one with npx turnpike keys new, and set keysFile.`,
    });
  }
  return {
    networks: chains(config).map(
      (network): EngineNetwork => ({
        network: idOf(network),
        confirmations: network.confirmations,
        finalityBlocks: network.finalityBlocks,
        blockTimeSeconds: network.blockTimeSeconds,
        multicall3: network.multicall3,
        relayerKeys,
        maxFeePerGasWei: gweiToWei(relayer.maxFeePerGasGwei),
        priorityFeeWei: gweiToWei(relayer.maxPriorityFeePerGasGwei),
        minRelayerBalanceWei: gweiToWei(relayer.minBalanceGwei),
      }),
    ),
    batchWindowMs: relayer.batchWindowMs,
    maxBatch: relayer.maxBatch,
    gasPerTransfer: BigInt(relayer.gasPerTransfer),
    gasPerWallet: BigInt(relayer.gasPerWallet),
    gasPerDeployment: BigInt(relayer.gasPerDeployment),
    bumpAfterMs: relayer.bumpAfterMs,
    bumpPercent: relayer.bumpPercent,
    maxOpenBatchesPerKey: relayer.maxOpenBatches,
    pollMs: pollMs(config),
    leaseRenewMs: Math.floor((relayer.leaseSeconds * 1_000) / 3.4),
    reconcileMs: relayer.reconcileIntervalMs,
  };
}

/** Options of the settlement through somebody else's facilitator. */
export function remoteOptions(config: Config, facilitatorUrl: string): RemoteSettlerOptions {
  return {
    facilitatorUrl,
    networks: chains(config).map((chain) => ({
      network: idOf(chain),
      confirmations: chain.confirmations,
      finalityBlocks: chain.finalityBlocks,
      blockTimeSeconds: chain.blockTimeSeconds,
      assets: config.payment.networks
        .filter(({ network }) => network === chain.network)
        .map(({ asset, name, version, maxTimeoutSeconds }) => ({ address: asset, name, version, maxTimeoutSeconds })),
      maxTimeoutSeconds: chain.maxTimeoutSeconds,
    })),
    timeoutMs: config.payment.facilitatorTimeoutMs,
    pollMs: pollMs(config),
    reconcileMs: config.payment.relayer.reconcileIntervalMs,
  };
}
