import { type Address, AppError, decimalToUnits, hexToBytes, type NetworkId } from "@turnpike/base";
import { type Config, type NetworkConfig, networkRelayer, type PrivateKey, readSellerKey } from "@turnpike/config";
import { checksumAddress, privateKeyToAddress } from "@turnpike/crypto";
import {
  type Anchor,
  AnchoredRpc,
  type ChainRules,
  chainIdOf,
  type EngineNetwork,
  type EngineOptions,
  type EvmRpc,
  EvmRpcClient,
  type Ledger,
  PRICE_DECIMALS,
  type ProfitRule,
  type RemoteSettlerOptions,
  sellerService,
  type TransactionBounds,
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

/** What this configuration's sales are paid to on a chain, by token. */
function receiversOf(config: Config, chainId: string): NonNullable<EngineNetwork["receivers"]> {
  return config.payment.networks
    .filter(({ network }) => network === chainId)
    .map(({ asset, payTo }) => ({ asset, payTo }));
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
  modules: Pick<PartModules, "log" | "metrics"> & { readonly ledger?: Pick<Ledger, "newestFinal"> },
): ReadonlyMap<NetworkId, EvmRpc> {
  const timeoutMs = config.payment.rpcTimeoutMs;
  return new Map(
    chains(config).map((network) => {
      const opts = { urls: network.rpcUrls, timeoutMs, expectedChainId: chainIdOf(network.network) };
      // A development chain may be made anew.
      const ledger = config.localnet ? undefined : modules.ledger;
      const first = async (): Promise<Anchor | undefined> => {
        const block = await ledger?.newestFinal(idOf(network));
        return block && { number: block.blockNumber, hash: block.blockHash };
      };
      return [idOf(network), new AnchoredRpc(new EvmRpcClient(opts, modules), network.finalityBlocks, first)];
    }),
  );
}

/** Seconds by which clocks may differ where a block's time ends a payment; development chains have their time moved. */
const MAX_LEAD_SECONDS = 60;
const maxLead = ({ localnet }: Config): Pick<ChainRules, "maxLeadSeconds"> =>
  localnet ? {} : { maxLeadSeconds: MAX_LEAD_SECONDS };

/** Relayer keys by network. */
export type NetworkKeys = ReadonlyMap<string, readonly PrivateKey[]>;

/** The account of a private key, in the mixed-case spelling. @throws AppError CONFIG_INVALID when it is none. */
export function accountOf(key: PrivateKey): Address {
  return checksumAddress(privateKeyToAddress(hexToBytes(key) ?? new Uint8Array(0)));
}

function relayersOf(keys: NetworkKeys, network: string): readonly Address[] {
  return (keys.get(network) ?? []).map(accountOf);
}

/** The verifier's networks and threads. It calls contract wallets as the first relayer of their network would. */
export function verifierOptions(config: Config, keys: NetworkKeys = new Map()): VerifierOptions {
  return {
    networks: config.payment.networks.map((network): VerifierNetwork => {
      const relayer = networkRelayer(config, network);
      return {
        network: idOf(network),
        asset: network.asset,
        name: network.name,
        version: network.version,
        decimals: network.decimals,
        multicall3: network.multicall3,
        allowedFactories: network.allowedFactories,
        relayers: relayersOf(keys, network.network),
        priorityFeeWei: gweiToWei(relayer.maxPriorityFeePerGasGwei),
        // as much as the settlement allows: see engineOptions
        walletGas: relayer.gasPerWallet,
        deploymentGas: relayer.gasPerDeployment,
      };
    }),
    maxSignatureBytes: config.payment.maxSignatureBytes,
    workers: config.payment.verifyThreads,
  };
}

/** Receivers whose sales are the operator's own. */
export function ownReceivers({ payment, facilitator }: Config): readonly Address[] {
  return [...payment.networks.map(({ payTo }) => payTo), ...facilitator.payToAllowed];
}

const priceOf = (text: string): bigint => decimalToUnits(text, PRICE_DECIMALS);

/** The rule of a chain for sales that cost more than they bring; undefined when it is not there any more. */
function profitRule(config: Config, network: string): ProfitRule | undefined {
  const tokens = config.payment.networks.filter((one) => one.network === network);
  const [first] = tokens;
  if (first === undefined) return undefined;
  const { whenUnprofitable, maxCostPercent, coinPriceUsd } = networkRelayer(config, first);
  const owners = new Set(ownReceivers(config).map((receiver) => receiver.toLowerCase()));
  const fees = new Map(
    config.facilitator.sellers.map(({ name, priceUsd = "0" }) => [sellerService(name), priceOf(priceUsd)]),
  );
  return {
    whenUnprofitable,
    feeUsd: ({ payTo, serviceId }) =>
      owners.has(payTo.toLowerCase()) ? undefined : ((serviceId && fees.get(serviceId)) ?? 0n),
    maxCostPercent,
    coinPriceUsd: coinPriceUsd === undefined ? undefined : priceOf(coinPriceUsd),
    assets: new Map(
      tokens.map(({ asset, decimals, assetPriceUsd }) => [
        asset.toLowerCase(),
        { decimals, priceUsd: priceOf(assetPriceUsd) },
      ]),
    ),
  };
}

/** Reads the rule of the configuration in effect; made once for each. */
function currentProfitRule(current: () => Config, network: string): () => ProfitRule | undefined {
  let of: Config | undefined;
  let rule: ProfitRule | undefined;
  return () => {
    const config = current();
    if (config !== of) rule = profitRule(config, network);
    of = config;
    return rule;
  };
}

function engineNetwork(
  config: Config,
  network: NetworkConfig,
  keys: readonly PrivateKey[],
  current: () => Config,
): EngineNetwork {
  const relayer = networkRelayer(config, network);
  return {
    network: idOf(network),
    confirmations: network.confirmations,
    finalityBlocks: network.finalityBlocks,
    ...maxLead(config),
    blockTimeSeconds: network.blockTimeSeconds,
    multicall3: network.multicall3,
    relayerKeys: keys.flatMap((key) => hexToBytes(key, 32) ?? []),
    maxFeePerGasWei: gweiToWei(relayer.maxFeePerGasGwei),
    priorityFeeWei: gweiToWei(relayer.maxPriorityFeePerGasGwei),
    minRelayerBalanceWei: gweiToWei(relayer.minBalanceGwei),
    ...transactionBounds(relayer),
    holdMs: relayer.holdMs,
    holdReserveMs: config.payment.settleMarginMs,
    profit: currentProfitRule(current, network.network),
  };
}

type Relayer = Pick<
  Config["payment"]["relayer"],
  | "batchWindowMs"
  | "maxBatch"
  | "gasPerTransfer"
  | "gasPerWallet"
  | "gasPerDeployment"
  | "bumpAfterMs"
  | "bumpPercent"
  | "maxOpenBatches"
>;

const transactionBounds = (relayer: Relayer): TransactionBounds => ({
  batchWindowMs: relayer.batchWindowMs,
  maxBatch: relayer.maxBatch,
  gasPerTransfer: BigInt(relayer.gasPerTransfer),
  gasPerWallet: BigInt(relayer.gasPerWallet),
  gasPerDeployment: BigInt(relayer.gasPerDeployment),
  bumpAfterMs: relayer.bumpAfterMs,
  bumpPercent: relayer.bumpPercent,
  maxOpenBatches: relayer.maxOpenBatches,
});

/** The error of a role without a relayer key, on one network or on all. */
export function noKeys(keysPath: string, network?: string): AppError {
  const where = network === undefined ? "" : ` on ${network}`;
  return new AppError("CONFIG_INVALID", {
    message: `${keysPath}: there is no key to send settlements with${where}; make one with npx turnpike keys new, and set keysFile.`,
  });
}

/**
 * Options of the settlement engine. `current` is the configuration in effect, for what may change while it runs.
 * @throws AppError CONFIG_INVALID when a network has no key to send with.
 */
export function engineOptions(
  config: Config,
  keys: NetworkKeys,
  keysPath: string,
  current: () => Config = () => config,
): EngineOptions {
  const { relayer } = config.payment;
  const networks = chains(config);
  const bare = networks.filter(({ network }) => (keys.get(network) ?? []).length === 0);
  const [first] = bare;
  if (first !== undefined) throw noKeys(keysPath, bare.length < networks.length ? first.network : undefined);
  return {
    networks: networks.map((network) => engineNetwork(config, network, keys.get(network.network) ?? [], current)),
    pollMs: pollMs(config),
    leaseRenewMs: Math.floor((relayer.leaseSeconds * 1_000) / 3.4),
    reconcileMs: relayer.reconcileIntervalMs,
  };
}

/** {@link engineOptions}, and the receivers that a gateway's engine watches. */
export function gatewayEngineOptions(...args: Parameters<typeof engineOptions>): EngineOptions {
  const [config] = args;
  const options = engineOptions(...args);
  return {
    ...options,
    networks: options.networks.map((network) => ({ ...network, receivers: receiversOf(config, network.network) })),
  };
}

export function remoteOptions(config: Config, facilitatorUrl: string): RemoteSettlerOptions {
  const sellerKey = readSellerKey(config);
  return {
    facilitatorUrl,
    ...(sellerKey === undefined ? {} : { sellerKey }),
    networks: chains(config).map((chain) => ({
      network: idOf(chain),
      confirmations: chain.confirmations,
      finalityBlocks: chain.finalityBlocks,
      ...maxLead(config),
      blockTimeSeconds: chain.blockTimeSeconds,
      receivers: receiversOf(config, chain.network),
      assets: config.payment.networks
        .filter(({ network }) => network === chain.network)
        .map(({ asset, name, version, maxTimeoutSeconds }) => ({ address: asset, name, version, maxTimeoutSeconds })),
    })),
    timeoutMs: config.payment.facilitatorTimeoutMs,
    pollMs: pollMs(config),
    reconcileMs: config.payment.relayer.reconcileIntervalMs,
  };
}
