import { bridgeAddress, bridgeName, networkNames, type Testnet, type TestnetNode } from "./plan.ts";

/** Arguments of one call of `ip`. */
export type IpCall = readonly string[];

/** Link of a node within its namespace. */
const INSIDE = "eth0";
const PREFIX = 24;

/** Makes the bridge, by which the nodes and this machine reach each other. */
export function bridgeUp(testnet: Testnet): readonly IpCall[] {
  const bridge = bridgeName(testnet);
  return [
    ["link", "add", bridge, "type", "bridge"],
    ["address", "add", `${bridgeAddress(testnet)}/${PREFIX}`, "dev", bridge],
    ["link", "set", bridge, "up"],
  ];
}

/** Takes the bridge away. */
export function bridgeDown(testnet: Testnet): IpCall {
  return ["link", "delete", bridgeName(testnet)];
}

/** Makes a node's namespace, and a link from the bridge into it. */
export function nodeUp(testnet: Testnet, node: TestnetNode): readonly IpCall[] {
  const { namespace, link } = networkNames(testnet, node);
  return [
    ["netns", "add", namespace],
    ["link", "add", link, "type", "veth", "peer", "name", INSIDE, "netns", namespace],
    ["link", "set", link, "master", bridgeName(testnet), "up"],
    ["-n", namespace, "address", "add", `${node.host}/${PREFIX}`, "dev", INSIDE],
    ["-n", namespace, "link", "set", INSIDE, "up"],
    ["-n", namespace, "link", "set", "lo", "up"],
  ];
}

/** Takes a node's link and namespace away. Processes that are in it stay. */
export function nodeDown(testnet: Testnet, node: TestnetNode): readonly IpCall[] {
  const { namespace, link } = networkNames(testnet, node);
  return [
    ["link", "delete", link],
    ["netns", "delete", namespace],
  ];
}

/** Pulls a node's cable, or puts it in again. */
export function linkTo(testnet: Testnet, node: TestnetNode, state: "down" | "up"): IpCall {
  return ["link", "set", networkNames(testnet, node).link, state];
}

/** The call that runs a program in a node's namespace: the process that it becomes is the program itself. */
export function inNamespace(testnet: Testnet, node: TestnetNode, command: readonly string[]): IpCall {
  return ["netns", "exec", networkNames(testnet, node).namespace, ...command];
}

/** The call that names the processes in a node's namespace, one on a line. */
export function processesOf(testnet: Testnet, node: TestnetNode): IpCall {
  return ["netns", "pids", networkNames(testnet, node).namespace];
}
