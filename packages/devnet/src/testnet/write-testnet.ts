import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { AppError, writeAtomically } from "@turnpike/base";
import {
  type ChainProfile,
  type GenesisDocument,
  genesisFileText,
  LOCAL_ROLES,
  type LocalRole,
  type LocalService,
  localGenesis,
} from "@turnpike/chain";
import type { ChainSigner } from "@turnpike/chain-client";
import { chainHome, consensusKeyOf, loadNodeKey, makeNodeFolder, nodeIdOf } from "@turnpike/chain-node";
import { namedKey } from "../chain/named-key.ts";
import { type ConsensusTimes, cometConfigText, type NodeFilesInput, turnpikeConfigText } from "./node-files.ts";
import { newTestnetId, type Testnet, type TestnetNode, type TestnetWish, validatorHosts } from "./plan.ts";
import { type TestnetLayout, testnetLayout, writeTestnetFile } from "./testnet-file.ts";

export interface WriteTestnetOptions extends TestnetWish {
  readonly home: string;
  readonly chainId: string;
  readonly profile: ChainProfile;
  /** RFC 3339, in UTC. */
  readonly genesisTime: string;
  readonly services: readonly [LocalService, ...LocalService[]];
  readonly supplierUrls: readonly [string, string];
  /** Stake of each validator in upokt; 10,000 POKT by default. */
  readonly bondUpokt?: bigint;
  /** Without them: blocks as the profile has them, and CometBFT's three seconds for a proposal. */
  readonly times?: Partial<ConsensusTimes>;
  /** Where RPC, REST, gRPC and metrics listen; `0.0.0.0` by default. */
  readonly listen?: string;
  /** Blocks between snapshots; 100 by default, 0 for none. */
  readonly snapshotBlocks?: number;
}

/** What all nodes' files have in common. */
export type SharedInput = Omit<NodeFilesInput, "testnet" | "node" | "trusted">;

const PROPOSE_MS = 3_000;
const SNAPSHOT_BLOCKS = 100;
const LISTEN = "0.0.0.0";

/** Name of the key of a validator's account: `validator` for node0, `validator-1` for node1. */
function operatorName(index: number): string {
  return index === 0 ? "validator" : `validator-${index}`;
}

async function refuseOldFolder(home: string): Promise<void> {
  const names = await readdir(home).catch((): string[] => []);
  if (!names.includes("testnet.json") && !names.includes("node0")) return;
  throw new AppError("CHAIN_HOME", {
    message: `${home} has a testnet already; name an empty folder with --home, or remove this one.`,
  });
}

/** What the nodes' files have in common, with what was not said filled in. */
export function sharedInput(
  options: Pick<WriteTestnetOptions, "times" | "listen" | "snapshotBlocks">,
  blockIntervalMs: number,
): SharedInput {
  return {
    times: { commitMs: blockIntervalMs, proposeMs: PROPOSE_MS, ...options.times },
    listen: options.listen ?? LISTEN,
    snapshotBlocks: options.snapshotBlocks ?? SNAPSHOT_BLOCKS,
  };
}

/** Makes a node's folder and keys, and gives CometBFT's id of it. */
export async function makeNode(folder: string): Promise<string> {
  const home = chainHome(folder);
  await makeNodeFolder(home);
  await consensusKeyOf(folder);
  return nodeIdOf((await loadNodeKey(home.nodeKeyFile)).publicKey);
}

/** Writes a node's configuration and genesis. */
export async function writeNodeFiles(folder: string, genesis: string, input: NodeFilesInput): Promise<void> {
  const home = chainHome(folder);
  await writeAtomically(join(home.configFolder, "config.toml"), cometConfigText(input));
  await writeAtomically(join(folder, "turnpike.yaml"), turnpikeConfigText(input));
  await writeAtomically(home.genesisFile, genesis);
}

/** A written testnet. */
export interface WrittenTestnet {
  readonly layout: TestnetLayout;
  readonly testnet: Testnet;
  readonly genesis: GenesisDocument;
  /** Addresses of the accounts by the names of their keys. */
  readonly accounts: Readonly<Record<string, string>>;
}

/**
 * Writes a new testnet: a folder for each validator, one genesis with a transaction of each, the accounts' keys, and
 * `testnet.json`. Files with keys have mode 600.
 * @throws AppError USAGE, CHAIN_HOME when the folder has one already
 */
export async function writeTestnet(options: WriteTestnetOptions): Promise<WrittenTestnet> {
  const { home, chainId, profile } = options;
  const layout = testnetLayout(home);
  const id = newTestnetId();
  const hosts = validatorHosts(options, id);
  await refuseOldFolder(home);
  const signers = {} as Record<LocalRole, ChainSigner>;
  for (const role of LOCAL_ROLES) signers[role] = (await namedKey(layout.keysFolder, role)).signer;
  const accounts: Record<string, string> = {};
  for (const role of LOCAL_ROLES) accounts[role] = signers[role].address;

  const nodes: TestnetNode[] = [];
  const validators = [];
  for (const [index, host] of hosts.entries()) {
    const name = `node${index}`;
    const folder = layout.nodeFolder(name);
    nodes.push({ name, isValidator: true, host, nodeId: await makeNode(folder) });
    const operator = operatorName(index);
    const { signer } = await namedKey(layout.keysFolder, operator);
    accounts[operator] = signer.address;
    validators.push({ moniker: name, signer, consensusKey: await consensusKeyOf(folder) });
  }
  const [first, ...moreValidators] = validators;
  if (first === undefined) throw new AppError("INTERNAL", { detail: { missing: "a validator" } });
  const genesis = localGenesis({ ...options, signers, ...first, moreValidators });
  const testnet: Testnet = { id, chainId, place: options.hosts === undefined ? "namespaces" : "hosts", nodes };
  const shared = sharedInput(options, profile.blockIntervalMs);
  const text = genesisFileText(genesis);
  for (const node of nodes) await writeNodeFiles(layout.nodeFolder(node.name), text, { ...shared, testnet, node });
  // Last: a folder that has it is whole.
  await writeTestnetFile(layout, testnet);
  return { layout, testnet, genesis, accounts };
}
