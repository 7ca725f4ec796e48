import { type Address, isRecord } from "@turnpike/base";
import { type Hex, isHex } from "./abi.ts";

/** ERC-20 `Transfer(address indexed from, address indexed to, uint256 value)`. */
export const TOPIC_TRANSFER: Hex = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
/** EIP-3009 `AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)`. */
export const TOPIC_AUTHORIZATION_USED: Hex = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
/** EIP-3009 `AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)`. */
export const TOPIC_AUTHORIZATION_CANCELED: Hex = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";

/** One log of a receipt, in lower case. */
export interface EvmLog {
  readonly address: Hex;
  readonly topics: readonly Hex[];
  readonly data: Hex;
}

/** The transfer that is looked for. */
export interface WantedEvidence {
  readonly asset: Address;
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
  readonly nonce: Hex;
}

/** Reads `logs` of a receipt or of `eth_getLogs`; undefined when they are not. Logs marked as removed are left out. */
export function decodeLogs(value: unknown): readonly EvmLog[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const logs: EvmLog[] = [];
  for (const item of value as readonly unknown[]) {
    if (!isRecord(item)) return undefined;
    const { address, topics, data, removed } = item;
    if (!isHex(address) || !isHex(data) || !Array.isArray(topics) || !topics.every(isHex)) return undefined;
    if (removed === true) continue;
    logs.push({
      address: address.toLowerCase() as Hex,
      topics: topics.map((topic) => topic.toLowerCase() as Hex),
      data: data.toLowerCase() as Hex,
    });
  }
  return logs;
}

/** An address as a log topic. */
export function addressToTopic(address: Address): Hex {
  return `0x000000000000000000000000${address.slice(2).toLowerCase()}`;
}

/**
 * True when these logs of one transaction show that the asset used the authorization and moved the money: both
 * `AuthorizationUsed(from, nonce)` and `Transfer(from, to, value)`, from the asset itself. A token may return true
 * without moving anything, so nothing less is evidence. For several payments of one transaction use
 * {@link matchEvidence}: here one `Transfer` would serve for all of them.
 */
export function findEvidence(logs: readonly EvmLog[], wanted: WantedEvidence): boolean {
  return matchEvidence(logs, [wanted])[0] === true;
}

/** {@link findEvidence} for several payments of one transaction: each `Transfer` and each use counts once. */
export function matchEvidence(logs: readonly EvmLog[], wanted: readonly WantedEvidence[]): readonly boolean[] {
  const counts = new Map<string, number>();
  for (const log of logs) {
    const [topic, first, second] = log.topics;
    if (first === undefined || second === undefined || log.topics.length !== 3) continue;
    // Fixed lengths, so that keys of two events never run together.
    if (topic === TOPIC_TRANSFER && log.data.length === 66) {
      add(counts, `t${log.address}${first}${second}${log.data}`);
    } else if (topic === TOPIC_AUTHORIZATION_USED) {
      add(counts, `u${log.address}${first}${second}`);
    }
  }
  return wanted.map(({ asset, from, to, value, nonce }) => {
    const address = asset.toLowerCase();
    const used = `u${address}${addressToTopic(from)}${nonce.toLowerCase()}`;
    const data = `0x${value.toString(16).padStart(64, "0")}`;
    const moved = `t${address}${addressToTopic(from)}${addressToTopic(to)}${data}`;
    const found = (counts.get(used) ?? 0) > 0 && (counts.get(moved) ?? 0) > 0;
    if (found) {
      add(counts, used, -1);
      add(counts, moved, -1);
    }
    return found;
  });
}

function add(counts: Map<string, number>, key: string, by = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + by);
}
