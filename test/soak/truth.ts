import { createHash } from "node:crypto";

/** Blocks of the made-up chain when the soak starts; a new one comes every second. */
export const FIRST_HEAD_BLOCKS = 20_000_000;
/** Blocks that can still be undone. */
export const UNFINAL_BLOCKS = 64;

/** Newest block of the made-up chain at a time of the wall clock. */
export function headAt(startMs: number, nowMs: number): number {
  return FIRST_HEAD_BLOCKS + Math.max(0, Math.floor((nowMs - startMs) / 1_000));
}

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");
const hex = (value: number): string => `0x${value.toString(16)}`;

/** A block of the made-up chain. */
export function blockOf(height: number): object {
  const word = (name: string): string => `0x${digest(`${name} ${height}`)}`;
  return {
    number: hex(height),
    hash: word("block"),
    parentHash: `0x${digest(`block ${height - 1}`)}`,
    nonce: "0x0000000000000000",
    sha3Uncles: word("uncles"),
    logsBloom: `0x${"0".repeat(512)}`,
    transactionsRoot: word("transactions"),
    stateRoot: word("state"),
    receiptsRoot: word("receipts"),
    miner: `0x${digest("miner").slice(0, 40)}`,
    difficulty: "0x0",
    extraData: "0x",
    size: "0x400",
    gasLimit: "0x1c9c380",
    gasUsed: "0x0",
    timestamp: hex(1_700_000_000 + height - FIRST_HEAD_BLOCKS),
    baseFeePerGas: "0x7",
    uncles: [],
    transactions: [],
  };
}

function logOf(height: number, address: string): object {
  const seed = digest(`log ${height} ${address}`);
  return {
    address,
    topics: [`0x${seed}`],
    data: `0x${seed}`,
    blockNumber: hex(height),
    blockHash: `0x${digest(`block ${height}`)}`,
    transactionHash: `0x${digest(`tx ${height} ${address}`)}`,
    transactionIndex: "0x0",
    logIndex: "0x0",
    removed: false,
  };
}

/** The members of a right answer after its id: `"result":…` or `"error":…`. */
export type Truth =
  | { readonly result: unknown }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: string } };

/** Most 32-byte words of an `eth_call`'s answer. */
const MAX_WORDS = 1_024;

/**
 * The only right answer to a call, a function of the call alone: an answer that belongs to another call is always
 * another one. Undefined for what depends on the moment.
 */
export function truthOf(method: string, params: readonly unknown[]): Truth | undefined {
  const seed = digest(`${method} ${JSON.stringify(params)}`);
  switch (method) {
    case "eth_getBalance":
      return { result: `0x1${seed.slice(0, 20)}` };
    case "eth_getStorageAt":
      return { result: `0x${seed}` };
    case "eth_call": {
      const kind = Number.parseInt(seed.slice(0, 2), 16);
      if (kind < 24) return { error: { code: 3, message: `execution reverted: ${seed}`, data: `0x${seed}` } };
      return { result: `0x${seed.repeat(kind > 250 ? MAX_WORDS : 1 + (kind % 4))}` };
    }
    case "eth_getTransactionReceipt":
      return { result: seed.startsWith("0") ? null : receiptOf(String(params[0]), seed) };
    case "eth_getBlockByNumber": {
      const [tag] = params;
      return typeof tag === "string" && tag.startsWith("0x") ? { result: blockOf(Number(tag)) } : undefined;
    }
    case "eth_getLogs": {
      const [filter] = params as readonly { fromBlock: string; toBlock: string; address: string }[];
      if (filter === undefined) return undefined;
      const logs: object[] = [];
      for (let height = Number(filter.fromBlock); height <= Number(filter.toBlock); height++) {
        if (height % 3 === 0) logs.push(logOf(height, filter.address));
      }
      return { result: logs };
    }
    default:
      return undefined;
  }
}

function receiptOf(hash: string, seed: string): object {
  const height = FIRST_HEAD_BLOCKS - 1_000 - Number.parseInt(seed.slice(0, 4), 16);
  return {
    transactionHash: hash,
    transactionIndex: "0x0",
    blockHash: `0x${digest(`block ${height}`)}`,
    blockNumber: hex(height),
    from: `0x${seed.slice(0, 40)}`,
    to: `0x${seed.slice(20, 60)}`,
    cumulativeGasUsed: "0x5208",
    gasUsed: "0x5208",
    contractAddress: null,
    logs: [],
    logsBloom: `0x${"0".repeat(512)}`,
    type: "0x2",
    effectiveGasPrice: "0x3b9aca00",
    status: "0x1",
  };
}
