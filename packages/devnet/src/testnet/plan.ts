import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { AppError } from "@turnpike/base";

/** Ports of every node. Each is alone on its machine, in its namespace or container. */
export const PORTS = { p2p: 26_656, rpc: 26_657, abci: 26_658, comet: 26_660, rest: 1317, grpc: 9090, metrics: 9094 };

/** Most nodes: an address and a link each, in one subnet. */
const MOST_NODES = 200;
const MOST_VALIDATORS = 16;
const BRIDGE_NUMBER = 254;

/** A node of a testnet. */
export interface TestnetNode {
  /** `node0`, which is its folder's name, too. */
  readonly name: string;
  readonly isValidator: boolean;
  /** Address or name under which the others find it. */
  readonly host: string;
  /** CometBFT's id of the node: 40 hexadecimal digits. */
  readonly nodeId: string;
}

/** A testnet: what `testnet.json` says. */
export interface Testnet {
  /** Six hexadecimal digits; each testnet of a machine has others. */
  readonly id: string;
  readonly chainId: string;
  /** Where its nodes run: each in a namespace of this machine, or each on a machine or in a container of its own. */
  readonly place: "namespaces" | "hosts";
  readonly nodes: readonly TestnetNode[];
}

/** What a new testnet is to be. */
export interface TestnetWish {
  /** 1 to 16; without it as many as there are hosts, or four. */
  readonly validators?: number;
  /** Addresses or names of machines or containers, one a validator. Without them: namespaces of this machine. */
  readonly hosts?: readonly string[];
}

const HOST = /^(?=.{1,253}$)[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$/;

function usage(message: string): AppError {
  return new AppError("USAGE", { message });
}

/** A host as addresses have it: IPv6 in brackets. */
export function hostOf(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}

/** True for an IP address or a host name. */
export function isHost(text: string): boolean {
  return isIP(text) !== 0 || HOST.test(text);
}

/** An id that no other testnet has. */
export function newTestnetId(): string {
  return randomBytes(3).toString("hex");
}

/** The first three bytes of a testnet's addresses in namespaces: 10.64.0 to 10.191.255. */
function subnetOf(id: string): string {
  const [first = 0, second = 0] = Buffer.from(id, "hex");
  return `10.${64 + (first % 128)}.${second}`;
}

/** Address of the bridge, by which this machine reaches the nodes. */
export function bridgeAddress({ id }: Testnet): string {
  return `${subnetOf(id)}.${BRIDGE_NUMBER}`;
}

/** Address of a node in its namespace. @param index 0 for node0 */
export function namespaceAddress(id: string, index: number): string {
  return `${subnetOf(id)}.${index + 1}`;
}

/** Hosts of the validators of a new testnet, in order. @throws AppError USAGE */
export function validatorHosts({ validators, hosts }: TestnetWish, id: string): readonly string[] {
  const count = validators ?? hosts?.length ?? 4;
  if (!Number.isSafeInteger(count) || count < 1 || count > MOST_VALIDATORS) {
    throw usage(`--validators: expected 1 to ${MOST_VALIDATORS}.`);
  }
  if (hosts === undefined) return Array.from({ length: count }, (_, index) => namespaceAddress(id, index));
  if (hosts.length !== count)
    throw usage(`--hosts: expected ${count}, one for each validator; there are ${hosts.length}.`);
  const bad = hosts.find((host) => !isHost(host));
  if (bad !== undefined) throw usage(`--hosts: "${bad}" is neither an address nor a name.`);
  if (new Set(hosts).size !== hosts.length) throw usage("--hosts: expected each only once.");
  return hosts;
}

/** Number of the next node that joins. @throws AppError USAGE when there are too many */
export function nextIndex({ nodes }: Testnet): number {
  if (nodes.length >= MOST_NODES) throw usage(`A testnet has at most ${MOST_NODES} nodes.`);
  return nodes.length;
}

/** Names of what a testnet has in this machine's network. Links have at most 15 letters. */
export function networkNames(
  { id }: Testnet,
  node: TestnetNode,
): { readonly namespace: string; readonly link: string } {
  return { namespace: `turnpike-${id}-${node.name}`, link: `tp${id}-${node.name.replace(/^node/, "")}` };
}

/** The bridge's name. */
export function bridgeName({ id }: Testnet): string {
  return `tp${id}`;
}

/** Where a node answers, by name. */
export function addressesOf({ host }: TestnetNode) {
  const name = hostOf(host);
  return {
    p2p: `${name}:${PORTS.p2p}`,
    rpc: `http://${name}:${PORTS.rpc}`,
    rest: `http://${name}:${PORTS.rest}`,
    grpc: `${name}:${PORTS.grpc}`,
    metrics: `http://${name}:${PORTS.metrics}/metrics`,
    cometMetrics: `http://${name}:${PORTS.comet}/metrics`,
  };
}
