import { AppError, isRecord } from "@turnpike/base";
import { isHex } from "../evm/abi.ts";
import { decodeLogs, type EvmLog } from "../evm/logs.ts";
import type { EvmNode, RpcCall } from "../evm/rpc.ts";
import type { Evidence } from "../types.ts";
import { type Head, quantity, readHead } from "./chain.ts";

/** A log, and where it is. */
export interface PlacedLog extends Omit<Evidence, "blockNumber"> {
  readonly log: EvmLog;
}

/** Which logs: of some contracts, with these topics (null is any), of these blocks. */
export interface LogFilter {
  readonly address: readonly string[];
  readonly topics: readonly (string | null | readonly string[])[];
  readonly from: bigint;
  readonly to: bigint;
}

const LATEST: RpcCall = { method: "eth_getBlockByNumber", params: ["latest", false] };

const TIMEOUT_MS = 10_000;

/** Reads from one node. Each method throws when it did not answer. */
export class NodeReader {
  readonly #node: EvmNode;

  constructor(node: EvmNode) {
    this.#node = node;
  }

  async head(signal: AbortSignal): Promise<Head> {
    const [newest] = await this.#node.batch([LATEST], bounded(signal));
    return newest?.ok === true ? this.#headOf(newest.result) : unreadable(this.#node, "eth_getBlockByNumber");
  }

  /**
   * Logs, with the newest block by the same answer: a node that is behind answers with the logs that it has, and does not
   * say so. `logs` is undefined when it refused them: they, or their blocks, may be too many.
   */
  async logs(
    { address, topics, from, to }: LogFilter,
    signal: AbortSignal,
  ): Promise<{ readonly head: Head; readonly logs?: readonly PlacedLog[] }> {
    const filter = { address, topics, fromBlock: quantity(from), toBlock: quantity(to) };
    // First, so that the logs are never older than the head.
    const calls = [LATEST, { method: "eth_getLogs", params: [filter] }];
    const [newest, found] = await this.#node.batch(calls, bounded(signal));
    if (newest?.ok !== true) return unreadable(this.#node, "eth_getBlockByNumber");
    const head = this.#headOf(newest.result);
    return found?.ok === true ? { head, logs: placedLogs(this.#node, found.result) } : { head };
  }

  #headOf(result: unknown): Head {
    const head = readHead(result, this.#node.name);
    return head.number <= Number.MAX_SAFE_INTEGER ? head : unreadable(this.#node, "eth_getBlockByNumber");
  }
}

function bounded(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
}

function placedLogs(node: EvmNode, found: unknown): readonly PlacedLog[] {
  if (!Array.isArray(found)) return unreadable(node, "eth_getLogs");
  return found.flatMap((item: unknown) => {
    const { transactionHash, blockHash } = isRecord(item) ? item : {};
    const logs = decodeLogs([item]);
    if (!isHex(transactionHash) || !isHex(blockHash) || logs === undefined) return unreadable(node, "eth_getLogs");
    return logs.map((log) => ({ transaction: transactionHash, blockHash, logIndex: log.index, log }));
  });
}

function unreadable({ name }: EvmNode, method: string): never {
  throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: name, method, reason: "unreadable" } });
}
