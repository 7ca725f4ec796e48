import { isRecord } from "@turnpike/base";
import type { Topic } from "./types.ts";

const HEX = /^0x[0-9a-f]*$/i;
const RANGE = new Set(["fromBlock", "toBlock", "blockHash"]);

/** Equal values in one form: members sorted, hexadecimal in lower case. */
function canonical(value: unknown): unknown {
  if (typeof value === "string") return HEX.test(value) ? value.toLowerCase() : value;
  if (Array.isArray(value)) return value.map(canonical);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, canonical(value[key])]),
  );
}

/** The topic of `eth_subscribe` with these params; undefined when they name no kind. */
export function evmTopic(params: unknown): Topic | undefined {
  if (!Array.isArray(params)) return undefined;
  const [kind, filter] = params as readonly unknown[];
  if (typeof kind !== "string") return undefined;
  const text = JSON.stringify(params);
  if (kind === "newHeads" && params.length === 1) return HEADS_TOPIC;
  if (kind === "logs" && params.length <= 2 && (filter === undefined || isRecord(filter))) {
    const kept = Object.fromEntries(Object.entries(filter ?? {}).filter(([name]) => !RANGE.has(name)));
    return { key: JSON.stringify(canonical(params)), kind, params: text, replay: "logs", filter: kept };
  }
  const known = kind === "newPendingTransactions" || kind === "syncing";
  return { key: text, kind: known ? kind : "other", params: text, replay: "none" };
}

/** New blocks of an EVM chain. */
export const HEADS_TOPIC: Topic = {
  key: '["newHeads"]',
  kind: "newHeads",
  params: '["newHeads"]',
  replay: "heads",
};

/** The topic of a CometBFT query. */
export function cometTopic(query: string): Topic {
  return { key: query, kind: "query", params: JSON.stringify({ query }), replay: "none" };
}
