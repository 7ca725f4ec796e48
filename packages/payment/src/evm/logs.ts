import { type Address, isRecord } from "@turnpike/base";
import { decodeQuantity, type Hex, isHex } from "./abi.ts";

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
  /** Place among all logs of its block. */
  readonly index: number;
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
    const index = decodeQuantity(item.logIndex);
    if (index === undefined || !isHex(address) || !isHex(data) || !Array.isArray(topics) || !topics.every(isHex))
      return undefined;
    if (removed === true) continue;
    logs.push({
      address: address.toLowerCase() as Hex,
      topics: topics.map((topic) => topic.toLowerCase() as Hex),
      data: data.toLowerCase() as Hex,
      index: Number(index),
    });
  }
  return logs;
}

/** An address as a log topic. */
export function addressToTopic(address: Address): Hex {
  return `0x000000000000000000000000${address.slice(2).toLowerCase()}`;
}

/**
 * Index of the `Transfer(from, to, value)` that these logs of one transaction show for an authorization; undefined when
 * they do not. It is the asset's very next log after `AuthorizationUsed(from, nonce)`: by its place each transfer belongs
 * to one use, so that a transaction which uses several nonces of a payer pays for no more of them than it moves money.
 * FiatToken (v2 to v2.2) logs the two in this order with nothing of its own between; tokens that log them otherwise are
 * not taken. A token may return true without moving anything, so nothing less is evidence.
 */
export function findEvidence(logs: readonly EvmLog[], wanted: WantedEvidence): number | undefined {
  return matchEvidence(logs, [wanted])[0];
}

/** {@link findEvidence} for several payments of one transaction. */
export function matchEvidence(
  logs: readonly EvmLog[],
  wanted: readonly WantedEvidence[],
): readonly (number | undefined)[] {
  const paid = new Map<string, number>();
  const lastOf = new Map<Hex, EvmLog>();
  for (const log of logs.toSorted((a, b) => a.index - b.index)) {
    const use = lastOf.get(log.address);
    lastOf.set(log.address, log);
    if (use?.topics[0] !== TOPIC_AUTHORIZATION_USED || use.topics.length !== 3) continue;
    if (log.topics[0] !== TOPIC_TRANSFER || log.topics.length !== 3 || log.data.length !== 66) continue;
    paid.set([log.address, ...use.topics.slice(1), ...log.topics.slice(1), log.data].join(), log.index);
  }
  return wanted.map(({ asset, from, to, value, nonce }) => {
    const payer = addressToTopic(from);
    const data = `0x${value.toString(16).padStart(64, "0")}`;
    return paid.get([asset.toLowerCase(), payer, nonce.toLowerCase(), payer, addressToTopic(to), data].join());
  });
}

/** True when these logs of one transaction show that the asset has used or cancelled the authorization. */
export function isSpentIn(
  logs: readonly EvmLog[],
  { asset, from, nonce }: Omit<WantedEvidence, "to" | "value">,
): boolean {
  const [address, payer, name] = [asset.toLowerCase(), addressToTopic(from), nonce.toLowerCase()];
  return logs.some(
    ({ address: emitter, topics: [event, first, second] }) =>
      emitter === address &&
      (event === TOPIC_AUTHORIZATION_USED || event === TOPIC_AUTHORIZATION_CANCELED) &&
      first === payer &&
      second === name,
  );
}
