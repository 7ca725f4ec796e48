import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

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

/** File in a node's folder with the addresses of the node that runs there. */
export function nodeFileOf(folder: string): string {
  return join(folder, "node.json");
}
