import { AppError } from "@turnpike/base";

const NETWORK = /^eip155:[1-9][0-9]{0,15}$/;

/** Chains whose coins and tokens have no price, by their ids in ethereum-lists/chains. */
const TEST_CHAINS: ReadonlySet<string> = new Set([
  "51", // XDC Apothem
  "1328", // Sei testnet
  "2201", // Stable testnet
  "10143", // Monad testnet
  "31337", // a development node
  "31611", // Mezo testnet
  "43113", // Avalanche Fuji
  "72344", // Radius testnet
  "80002", // Polygon Amoy
  "84532", // Base Sepolia
  "181228", // HPP Sepolia
  "421614", // Arbitrum Sepolia
  "11142220", // Celo Sepolia
  "11155111", // Sepolia
  "11155420", // OP Sepolia
]);

/** True for a CAIP-2 id of an EVM chain. */
export function isEvmNetwork(network: string): boolean {
  return NETWORK.test(network);
}

/** True for a network that is known to be for tests; a network that is not known is taken for a main network. */
export function isTestNetwork(network: string): boolean {
  return isEvmNetwork(network) && TEST_CHAINS.has(network.slice("eip155:".length));
}

/** Networks that a buyer pays on: those that are listed; without a list, the test networks that are known. */
export class AllowedNetworks {
  readonly #listed: ReadonlySet<string> | undefined;

  /** @throws AppError CONFIG_INVALID for a text that is not the CAIP-2 id of an EVM chain. */
  constructor(networks: readonly string[] | undefined) {
    for (const network of networks ?? []) {
      if (isEvmNetwork(network)) continue;
      throw new AppError("CONFIG_INVALID", {
        message: `networks: ${JSON.stringify(String(network).slice(0, 40))} is not an EVM network such as "eip155:8453"; nothing was signed.`,
      });
    }
    this.#listed = networks === undefined ? undefined : new Set(networks);
  }

  allows(network: string): boolean {
    return this.#listed?.has(network) ?? isTestNetwork(network);
  }

  /** The list, for a sentence. */
  text(): string {
    const listed = this.#listed;
    if (listed === undefined) return "test networks alone";
    return listed.size === 0 ? "no network" : [...listed].join(", ");
  }
}
