import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { AppError, type Clock, isAppError, isRecord } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";
import { chainHome } from "@turnpike/chain-node";
import { loadConfig } from "@turnpike/config";
import type { Trusted } from "./node-files.ts";
import { addressesOf, isHost, namespaceAddress, nextIndex, type Testnet, type TestnetNode } from "./plan.ts";
import { readTestnet, testnetLayout, writeTestnetFile } from "./testnet-file.ts";
import { makeNode, type SharedInput, writeNodeFiles } from "./write-testnet.ts";

export interface JoinOptions {
  /** The testnet's folder. */
  readonly home: string;
  /** Address or name of the new node's machine. Nodes in namespaces get their own. */
  readonly host?: string;
  /** RPC of nodes that run; without any, those of the testnet. */
  readonly rpcServers?: readonly string[];
  readonly shared: SharedInput;
}

/** A node that may join. */
export interface JoinedNode {
  readonly testnet: Testnet;
  readonly node: TestnetNode;
  readonly folder: string;
  readonly trusted: Trusted;
}

/** Blocks behind the newest one that are trusted: snapshots are younger, and headers are verified forwards from here. */
const TRUST_BEHIND_BLOCKS = 1_000n;
/** Headers above a snapshot's height without which no node takes it. */
const ABOVE_SNAPSHOT_BLOCKS = 2n;
const ASK_MS = 5_000;

interface Answering {
  readonly url: string;
  readonly latestBlocks: bigint;
  readonly heightBlocks: bigint;
  readonly hash: string;
}

const wholeOf = (value: unknown): bigint =>
  typeof value === "string" && /^\d{1,19}$/.test(value) ? BigInt(value) : 0n;
const recordOf = (value: unknown): Readonly<Record<string, unknown>> => (isRecord(value) ? value : {});

async function headerHash(client: ChainClient, heightBlocks: bigint): Promise<string | undefined> {
  const answer = await client.call("blockchain", { minHeight: `${heightBlocks}`, maxHeight: `${heightBlocks}` });
  const [meta]: unknown[] = answer.ok && Array.isArray(answer.result.block_metas) ? answer.result.block_metas : [];
  const { hash } = recordOf(recordOf(meta).block_id);
  return typeof hash === "string" && /^[0-9A-F]{64}$/.test(hash) ? hash : undefined;
}

/** What a node says of the block to trust; undefined when it does not answer. */
async function answering(url: string, heightBlocks: bigint | undefined, clock: Clock): Promise<Answering | undefined> {
  await using client = new ChainClient({ url, timeoutMs: ASK_MS }, { clock });
  try {
    const status = await client.call("status", {});
    const sync = recordOf(status.ok ? status.result.sync_info : undefined);
    const [earliest, latest] = [wholeOf(sync.earliest_block_height), wholeOf(sync.latest_block_height)];
    const behind = latest > TRUST_BEHIND_BLOCKS ? latest - TRUST_BEHIND_BLOCKS : 1n;
    const wanted = heightBlocks ?? (behind > earliest ? behind : earliest);
    if (latest === 0n) return undefined;
    const hash = await headerHash(client, wanted);
    return hash === undefined ? undefined : { url, latestBlocks: latest, heightBlocks: wanted, hash };
  } catch (error) {
    if (isAppError(error, "CHAIN_UNREACHABLE")) return undefined;
    throw error;
  }
}

function refuseWithoutSnapshot(latestBlocks: bigint, everyBlocks: number): void {
  if (everyBlocks === 0) {
    const message = "The nodes make no snapshots (chain.snapshots.everyBlocks is 0), and a node joins from one.";
    throw new AppError("CHAIN_HOME", { message });
  }
  const needed = BigInt(everyBlocks) + ABOVE_SNAPSHOT_BLOCKS;
  if (latestBlocks >= needed) return;
  const message =
    `There is no snapshot to join from yet: the first is of block ${everyBlocks}, and the chain is at block ` +
    `${latestBlocks}. Try again from block ${needed} on.`;
  throw new AppError("CHAIN_HOME", { message });
}

export interface TrustOptions {
  /** RPC of nodes to ask. */
  readonly urls: readonly string[];
  /** Blocks between the snapshots that the nodes make; 0 when they make none. */
  readonly everyBlocks: number;
}

/**
 * What a new node trusts: a block that one node of the chain names and the others that answer name, too.
 * @throws AppError CHAIN_UNREACHABLE when none answers, CHAIN_MISMATCH when they differ, CHAIN_HOME when they have no snapshot yet
 */
export async function trustedBlock(
  { urls, everyBlocks }: TrustOptions,
  { clock }: { readonly clock: Clock },
): Promise<Trusted> {
  const [first] = (await Promise.all(urls.map((url) => answering(url, undefined, clock)))).filter(
    (it) => it !== undefined,
  );
  if (first === undefined) {
    const message = `None of ${urls.join(", ")} answers with a block; the chain must run while a node joins.`;
    throw new AppError("CHAIN_UNREACHABLE", { message });
  }
  const { heightBlocks, hash } = first;
  const others = await Promise.all(
    urls.filter((url) => url !== first.url).map((url) => answering(url, heightBlocks, clock)),
  );
  const found = others.filter((other) => other !== undefined);
  const other = found.find((one) => one.hash !== hash);
  if (other !== undefined) {
    const message = `${first.url} and ${other.url} have different blocks ${heightBlocks}: they are of different chains.`;
    throw new AppError("CHAIN_MISMATCH", { message });
  }
  refuseWithoutSnapshot(first.latestBlocks, everyBlocks);
  // CometBFT wants two names, even of one node.
  const servers = [first.url, ...found.map(({ url }) => url)];
  return { heightBlocks, hash, rpcServers: servers.length === 1 ? [first.url, first.url] : servers };
}

/**
 * Writes the folder of a node that joins a chain that runs: no validator, and brought up by a snapshot.
 * @throws AppError CHAIN_HOME, USAGE, CHAIN_UNREACHABLE, CHAIN_MISMATCH
 */
export async function joinTestnet(options: JoinOptions, modules: { readonly clock: Clock }): Promise<JoinedNode> {
  const layout = testnetLayout(options.home);
  const before = await readTestnet(layout);
  const index = nextIndex(before);
  const host = options.host ?? (before.place === "namespaces" ? namespaceAddress(before.id, index) : undefined);
  if (host === undefined || !isHost(host)) {
    throw new AppError("USAGE", { message: "--host: expected the address or name of the new node's machine." });
  }
  const urls = options.rpcServers ?? before.nodes.map((node) => addressesOf(node).rpc);
  // The testnet's nodes are all written with the same.
  const { chain } = loadConfig({ file: join(layout.nodeFolder("node0"), "turnpike.yaml"), env: {} });
  const trusted = await trustedBlock({ urls, everyBlocks: chain.snapshots.everyBlocks }, modules);
  const name = `node${index}`;
  const folder = layout.nodeFolder(name);
  const node: TestnetNode = { name, isValidator: false, host, nodeId: await makeNode(folder) };
  const testnet: Testnet = { ...before, nodes: [...before.nodes, node] };
  const genesis = await readFile(chainHome(layout.nodeFolder("node0")).genesisFile, "utf8");
  await writeNodeFiles(folder, genesis, { ...options.shared, testnet, node, trusted });
  await writeTestnetFile(layout, testnet);
  return { testnet, node, folder, trusted };
}
