import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { AppError, isRecord, writeAtomically } from "@turnpike/base";
import { type GenesisDocument, parseGenesisFile } from "@turnpike/chain";
import type { Ed25519Signer } from "@turnpike/crypto";
import { loadValidatorKey } from "./keys.ts";

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
    nodeKeyFile: join(configFolder, "node_key.json"),
    validatorKeyFile: join(configFolder, "priv_validator_key.json"),
    signedFile: join(configFolder, "priv_validator_signed.json"),
  };
}

/** A validator that has signed nothing, as CometBFT writes it. */
const UNSIGNED = { height: "0", round: 0, step: 0 };

/** Makes the folders of a node, and what CometBFT's signer begins with: it does not start without. */
export async function makeNodeFolder({ configFolder, dataFolder }: ChainHome): Promise<void> {
  for (const folder of [configFolder, dataFolder]) await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeAtomically(join(dataFolder, "priv_validator_state.json"), `${JSON.stringify(UNSIGNED)}\n`);
}

/** Public key that signs blocks, 32 bytes; made when there is none. */
export async function consensusKeyOf(folder: string): Promise<Uint8Array> {
  return (await loadValidatorKey(chainHome(folder).validatorKeyFile)).publicKey;
}

/** Reads a node's genesis. @throws AppError CHAIN_HOME when there is none, or it is none. */
export async function readGenesis(home: ChainHome): Promise<GenesisDocument> {
  let text: string;
  try {
    text = await readFile(home.genesisFile, "utf8");
  } catch (cause) {
    const isMissing = isRecord(cause) && cause.code === "ENOENT";
    const why = isMissing
      ? `is missing; make a chain with npx turnpike chain init --home ${home.folder}`
      : `cannot be read (${cause instanceof Error ? cause.message : "unknown"})`;
    throw new AppError("CHAIN_HOME", { message: `${home.genesisFile} ${why}.`, cause });
  }
  const genesis = parseGenesisFile(text);
  if (genesis !== undefined) return genesis;
  throw new AppError("CHAIN_HOME", { message: `${home.genesisFile} is no genesis; restore it from a copy.` });
}

/**
 * The key that signs blocks. A node that starts makes none: no validator would have it.
 * @throws AppError CHAIN_HOME when there is none, CONFIG_INVALID when it is none
 */
export async function validatorKeyOf(home: ChainHome): Promise<Ed25519Signer> {
  if (existsSync(home.validatorKeyFile)) return loadValidatorKey(home.validatorKeyFile);
  throw new AppError("CHAIN_HOME", {
    message: `${home.validatorKeyFile} is missing: without it this node signs no blocks; restore it from a copy.`,
  });
}
