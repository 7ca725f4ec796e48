import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { AppError, type ProcessName, readPidFile, trimEndOf } from "@turnpike/base";
import { endProcess } from "@turnpike/localnet";
import { bridgeDown, bridgeUp, nodeDown, processesOf } from "./network.ts";
import { bridgeAddress, bridgeName, networkNames, type Testnet, type TestnetNode } from "./plan.ts";
import { callIp } from "./programs.ts";
import { readTestnet, type TestnetLayout } from "./testnet-file.ts";

/** Time for a node's processes to end, and for a command that runs nodes. */
const NODE_MS = 10_000;
const RUNNER_MS = 30_000;

/** What is made and taken away with `ip`. */
export interface IpModules {
  readonly ip: string;
}

async function namespaces(ip: string): Promise<ReadonlySet<string>> {
  const text = await callIp(ip, ["netns", "list"]);
  return new Set(text.split("\n").map((line) => line.split(" ")[0] ?? ""));
}

async function links(ip: string, ...which: readonly string[]): Promise<ReadonlySet<string>> {
  const text = await callIp(ip, ["-o", "link", "show", ...which]);
  return new Set(text.split("\n").flatMap((line) => /^\d+: ([^:@\s]+)[:@]/.exec(line)?.[1] ?? []));
}

/** File that names the process by which a node runs. */
export function runnerFile({ runFolder }: TestnetLayout, node: string): string {
  return join(runFolder, `${node}.json`);
}

/** The other process that runs a node; undefined when none does. */
export async function runnerOf(layout: TestnetLayout, node: string): Promise<ProcessName | undefined> {
  const runner = await readPidFile(runnerFile(layout, node));
  return runner?.pid === process.pid ? undefined : runner;
}

/**
 * Makes the bridge where there is none.
 * @throws AppError DEPENDENCY_MISSING, CHAIN_HOME when something else on this machine has the testnet's addresses
 */
export async function ensureBridge(testnet: Testnet, { ip }: IpModules): Promise<void> {
  if ((await links(ip)).has(bridgeName(testnet))) return;
  const subnet = trimEndOf(bridgeAddress(testnet), "0123456789");
  const taken = (await callIp(ip, ["-o", "-4", "address", "show"]))
    .split("\n")
    .find((line) => line.includes(` ${subnet}`));
  if (taken !== undefined) {
    const message = `The testnet's addresses ${subnet}0/24 are in use on this machine (${taken.trim()}); make it anew in another folder.`;
    throw new AppError("CHAIN_HOME", { message });
  }
  for (const call of bridgeUp(testnet)) await callIp(ip, call);
}

/** Takes the bridge away, unless a node has a link to it. True when it did. */
export async function dropBridge(testnet: Testnet, { ip }: IpModules): Promise<boolean> {
  const name = bridgeName(testnet);
  if (!(await links(ip)).has(name) || (await links(ip, "master", name)).size > 0) return false;
  await callIp(ip, bridgeDown(testnet));
  return true;
}

/** Ends what runs in a node's namespace, and takes the namespace and its link away. True when there was something. */
export async function dropNode(testnet: Testnet, node: TestnetNode, { ip }: IpModules): Promise<boolean> {
  const { namespace, link } = networkNames(testnet, node);
  const hasNamespace = (await namespaces(ip)).has(namespace);
  if (hasNamespace) {
    const pids = (await callIp(ip, processesOf(testnet, node))).split("\n").map(Number);
    await Promise.all(pids.filter((pid) => pid > 1).map((pid) => endProcess(pid, "SIGTERM", NODE_MS)));
  }
  const hasLink = (await links(ip)).has(link);
  const [dropLink, dropNamespace] = nodeDown(testnet, node);
  if (hasLink && dropLink !== undefined) await callIp(ip, dropLink);
  if (hasNamespace && dropNamespace !== undefined) await callIp(ip, dropNamespace);
  return hasNamespace || hasLink;
}

/**
 * Takes a node for this process.
 * @throws AppError CHAIN_HOME when another process that is alive runs it
 */
export async function refuseRunner(layout: TestnetLayout, node: string): Promise<void> {
  const runner = await runnerOf(layout, node);
  if (runner === undefined) return;
  throw new AppError("CHAIN_HOME", {
    message:
      `${node} of ${layout.folder} is run by process ${runner.pid} already; ` +
      `end it there with Ctrl-C, or with npx turnpike chain testnet stop --home ${layout.folder}.`,
  });
}

/**
 * Ends everything of a testnet on this machine: the commands that run its nodes, processes that a killed one left, namespaces,
 * links and bridge. Returns what it found, in words.
 * @throws AppError CHAIN_HOME, DEPENDENCY_MISSING
 */
export async function stopTestnet(layout: TestnetLayout, modules: IpModules): Promise<readonly string[]> {
  const testnet = await readTestnet(layout);
  const found: string[] = [];
  const runners = new Map<number, string>();
  for (const file of await readdir(layout.runFolder).catch(() => [])) {
    const runner = await readPidFile(join(layout.runFolder, file));
    if (runner !== undefined && runner.pid !== process.pid) runners.set(runner.pid, file);
  }
  for (const pid of runners.keys()) {
    await endProcess(pid, "SIGTERM", RUNNER_MS);
    found.push(`process ${pid}`);
  }
  for (const node of testnet.nodes) {
    if (testnet.place === "namespaces" && (await dropNode(testnet, node, modules))) found.push(node.name);
  }
  if (testnet.place === "namespaces" && (await dropBridge(testnet, modules))) found.push(bridgeName(testnet));
  await rm(layout.runFolder, { recursive: true, force: true });
  return found;
}
