import { AppError, sameAddress } from "@turnpike/base";
import { findDefaultAsset } from "@x402/evm";
import { createPublicClient, http, parseAbi } from "viem";
import { isEvmNetwork } from "./networks.ts";
import type { DollarAsset } from "./types.ts";

/** A dollar stablecoin, as the table of the reference client or its chain describes it: never its seller. */
export interface Token {
  readonly decimals: number;
  /** Name of its EIP-712 domain. */
  readonly name: string;
  /** Version of its EIP-712 domain; undefined where the chain alone described the token. */
  readonly version: string | undefined;
}

/** Identifies a token. */
export interface TokenId {
  readonly network: string;
  readonly asset: string;
}

/** Maximum decimals of a token: budgets have as many places. */
const MAX_DECIMALS = 18;
const MAX_NAME_LENGTH = 200;
const READ_TIMEOUT_MS = 5_000;
const ABI = parseAbi(["function decimals() view returns (uint8)", "function name() view returns (string)"]);

/** A token of the table that takes EIP-3009 authorizations; undefined for any other. */
function tableToken({ network, asset }: TokenId): Token | undefined {
  if (!isEvmNetwork(network)) return undefined;
  const entry = findDefaultAsset(asset, network as `${string}:${string}`);
  if (entry === undefined || entry.assetTransferMethod !== undefined) return undefined;
  const { decimals, name, version } = entry;
  return { decimals, name, version };
}

/** Token as one node shows it; undefined for a node of another chain. */
async function readToken(rpcUrl: string, { network, asset }: TokenId): Promise<Token | undefined> {
  const fetchOptions = { signal: AbortSignal.timeout(READ_TIMEOUT_MS) };
  const node = createPublicClient({ transport: http(rpcUrl, { fetchOptions, retryCount: 0 }) });
  if (`eip155:${await node.getChainId()}` !== network) return undefined;
  const address = asset as `0x${string}`;
  const [decimals, name] = await Promise.all([
    node.readContract({ address, abi: ABI, functionName: "decimals" }),
    node.readContract({ address, abi: ABI, functionName: "name" }),
  ]);
  return { decimals, name, version: undefined };
}

/**
 * The tokens that a client pays in. Decimals and names of those that the table lacks are read from the chain: all nodes that
 * are named must answer, and those of the token's chain agree.
 */
export class Tokens {
  readonly #assets: readonly DollarAsset[];
  readonly #rpcUrls: readonly string[];
  readonly #read = new Map<DollarAsset, Promise<Token | undefined>>();

  /** @throws AppError CONFIG_INVALID for an asset whose decimals are not those of the table. */
  constructor(assets: readonly DollarAsset[], rpcUrls: readonly string[]) {
    for (const { network, asset, decimals } of assets) {
      const expected = tableToken({ network, asset })?.decimals;
      if (expected === undefined || decimals === undefined || decimals === expected) continue;
      throw new AppError("CONFIG_INVALID", {
        message: `assets: ${asset} on ${network} has ${expected} decimals, not ${decimals}; nothing was signed.`,
      });
    }
    this.#assets = assets;
    this.#rpcUrls = rpcUrls;
  }

  /** The token; undefined where it is neither in the table nor among the assets that were configured, or cannot be read. */
  async find(id: TokenId): Promise<Token | undefined> {
    const token = tableToken(id);
    if (token !== undefined) return token;
    const asset = this.#assets.find((one) => one.network === id.network && sameAddress(one.asset, id.asset));
    if (asset === undefined) return undefined;
    const reading = this.#read.get(asset) ?? this.#readFromChain(asset).catch(() => undefined);
    this.#read.set(asset, reading);
    const read = await reading;
    if (read === undefined) this.#read.delete(asset);
    return read;
  }

  async #readFromChain(asset: DollarAsset): Promise<Token | undefined> {
    const answers = await Promise.all(this.#rpcUrls.map((rpcUrl) => readToken(rpcUrl, asset)));
    const [token, ...others] = answers.filter((answer) => answer !== undefined);
    const isPlausible =
      token !== undefined &&
      token.decimals <= MAX_DECIMALS &&
      token.name.length <= MAX_NAME_LENGTH &&
      (asset.decimals === undefined || asset.decimals === token.decimals) &&
      others.every(({ decimals, name }) => decimals === token.decimals && name === token.name);
    return isPlausible ? token : undefined;
  }
}
