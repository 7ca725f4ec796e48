import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { AppError, isRecord, writeAtomically } from "@turnpike/base";
import {
  addressesOf,
  bridgeAddress,
  bridgeName,
  isHost,
  networkNames,
  type Testnet,
  type TestnetNode,
} from "./plan.ts";

const FORMAT = 1;

/** Folders and files of a testnet. */
export interface TestnetLayout {
  readonly folder: string;
  /** What is where. */
  readonly file: string;
  /** The accounts' keys. */
  readonly keysFolder: string;
  /** Which process runs which node. */
  readonly runFolder: string;
  nodeFolder(name: string): string;
  /** Where what a node's two processes say is written. */
  logFile(name: string, program: "turnpike" | "cometbft"): string;
}

/** The layout of a testnet's folder. */
export function testnetLayout(folder: string): TestnetLayout {
  return {
    folder,
    file: join(folder, "testnet.json"),
    keysFolder: join(folder, "keys"),
    runFolder: join(folder, "run"),
    nodeFolder: (name) => join(folder, name),
    logFile: (name, program) => join(folder, name, "logs", `${program}.log`),
  };
}

/** A text as a shell takes it. */
export function shellText(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The command that starts one node, or brings it back. */
export function startCommandText({ folder }: Pick<TestnetLayout, "folder">, node: string): string {
  return `npx turnpike chain testnet start --home ${shellText(folder)} --node ${node}`;
}

function nodeJson(testnet: Testnet, node: TestnetNode): Readonly<Record<string, unknown>> {
  const { name, isValidator, host, nodeId } = node;
  const network = testnet.place === "namespaces" ? networkNames(testnet, node) : {};
  return { name, folder: name, isValidator, host, nodeId, ...network, ...addressesOf(node) };
}

/** What `testnet.json` holds: everything that people and programs look for, by name. */
export function testnetJson(testnet: Testnet): Readonly<Record<string, unknown>> {
  const { id, chainId, place, nodes } = testnet;
  const bridge = place === "namespaces" ? { bridge: bridgeName(testnet), bridgeAddress: bridgeAddress(testnet) } : {};
  return {
    format: FORMAT,
    id,
    chainId,
    place,
    ...bridge,
    keys: "keys",
    nodes: nodes.map((node) => nodeJson(testnet, node)),
  };
}

/** Writes `testnet.json`. */
export async function writeTestnetFile(layout: TestnetLayout, testnet: Testnet): Promise<void> {
  await writeAtomically(layout.file, `${JSON.stringify(testnetJson(testnet), undefined, 2)}\n`, 0o644);
}

function nodeOf(value: unknown, index: number): TestnetNode | undefined {
  if (!isRecord(value)) return undefined;
  const { name, isValidator, host, nodeId } = value;
  if (name !== `node${index}` || typeof isValidator !== "boolean") return undefined;
  if (typeof host !== "string" || !isHost(host)) return undefined;
  if (typeof nodeId !== "string" || !/^[0-9a-f]{40}$/.test(nodeId)) return undefined;
  return { name, isValidator, host, nodeId };
}

// Names of links and namespaces follow from the id and the nodes' names: what a hand wrote there is not run.
function testnetOf(value: unknown): Testnet | undefined {
  if (!isRecord(value) || value.format !== FORMAT) return undefined;
  const { id, chainId, place } = value;
  if (typeof id !== "string" || !/^[0-9a-f]{6}$/.test(id) || typeof chainId !== "string") return undefined;
  if ((place !== "namespaces" && place !== "hosts") || !Array.isArray(value.nodes)) return undefined;
  const nodes = value.nodes.flatMap((node: unknown, index) => nodeOf(node, index) ?? []);
  if (nodes.length === 0 || nodes.length !== value.nodes.length) return undefined;
  return { id, chainId, place, nodes };
}

/** Reads `testnet.json`. @throws AppError CHAIN_HOME when there is none, or it is none */
export async function readTestnet({ file, folder }: TestnetLayout): Promise<Testnet> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (cause) {
    const message = `${file} is missing; make a testnet with npx turnpike chain testnet --home ${folder}.`;
    throw new AppError("CHAIN_HOME", { message, cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const testnet = testnetOf(value);
  if (testnet !== undefined) return testnet;
  throw new AppError("CHAIN_HOME", {
    message: `${file} describes no testnet of this version; restore it from a copy.`,
  });
}

/** A node by its name. @throws AppError USAGE when there is none */
export function nodeNamed({ nodes }: Testnet, name: string): TestnetNode {
  const found = nodes.find((node) => node.name === name);
  if (found !== undefined) return found;
  throw new AppError("USAGE", {
    message: `${name} is no node; there are: ${nodes.map((node) => node.name).join(", ")}.`,
  });
}
