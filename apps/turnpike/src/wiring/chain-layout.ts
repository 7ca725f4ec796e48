import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

/** Folders and files of a chain's node, laid out as CometBFT does. */
export interface ChainHome {
  readonly folder: string;
  readonly configFolder: string;
  /** Where CometBFT keeps blocks, and the state of its signing. */
  readonly dataFolder: string;
  /** The chain's own store, and nothing else. */
  readonly storeFolder: string;
  /** Snapshots of the state, and nothing else. */
  readonly snapshotsFolder: string;
  readonly genesisFile: string;
  /** Addresses of the node that runs there. */
  readonly nodeFile: string;
  readonly nodeKeyFile: string;
  readonly validatorKeyFile: string;
  /** Which block the embedded engine signed last. Beside the key: a copy of the store does not bring an older one. */
  readonly signedFile: string;
}

/** The layout of a node's folder. */
export function chainHome(folder: string): ChainHome {
  const configFolder = join(folder, "config");
  return {
    folder,
    configFolder,
    dataFolder: join(folder, "data"),
    storeFolder: join(folder, "data", "application"),
    snapshotsFolder: join(folder, "data", "snapshots"),
    genesisFile: join(configFolder, "genesis.json"),
    nodeFile: join(folder, "node.json"),
    nodeKeyFile: join(configFolder, "node_key.json"),
    validatorKeyFile: join(configFolder, "priv_validator_key.json"),
    signedFile: join(configFolder, "priv_validator_signed.json"),
  };
}

/** True for the folder of a testnet, which holds its nodes' folders and is none itself. */
export function isTestnetFolder(folder: string): boolean {
  return existsSync(join(folder, "testnet.json"));
}

/** Folder of a node where nothing says another one. */
export const DEFAULT_CHAIN_HOME = "chain";

/** The folder of a command's node, absolute: that of --home, else of `chain.home`, else the usual one. */
export function nodeFolder(home: string | undefined, configured: string | undefined): string {
  return resolve(home ?? configured ?? DEFAULT_CHAIN_HOME);
}
