import { AppError } from "@turnpike/base";
import { openChainClient } from "../../wiring/chain-client.ts";
import { blockTime, includedJson } from "../tx/text.ts";
import { printAnswer, type QueryFlags } from "./print.ts";

/** Flags of `turnpike query txs`. */
export interface TxsFlags extends QueryFlags {
  readonly query: string;
  readonly page?: string;
  readonly limit?: string;
  readonly orderBy?: string;
}

const MOST_TXS = 100;

function pageNumber(text: string | undefined, otherwise: number, flag: string, most: number): number {
  if (text === undefined) return otherwise;
  const value = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0;
  if (value >= 1 && value <= most) return value;
  throw new AppError("USAGE", {
    message: `${flag}: expected a number from 1 to ${most}, not ${JSON.stringify(text)}.`,
  });
}

/** Shows a transaction by its hash. @throws AppError CHAIN_QUERY_FAILED when no block has it */
export async function queryTx(hash: string, flags: QueryFlags): Promise<void> {
  if (!/^(0x)?[0-9a-fA-F]{64}$/.test(hash)) {
    throw new AppError("USAGE", { message: `${JSON.stringify(hash)} is no hash; expected 64 hex digits.` });
  }
  await using client = await openChainClient(flags);
  const found = await client.tx(hash.replace(/^0x/, ""));
  if (found === undefined) {
    throw new AppError("CHAIN_QUERY_FAILED", { message: `tx not found: ${hash}. It is in no block (yet).` });
  }
  printAnswer(includedJson(found, await blockTime(client, found)), flags);
}

/** Lists transactions by their events. */
export async function queryTxs(flags: TxsFlags): Promise<void> {
  const page = pageNumber(flags.page, 1, "--page", 1e9);
  const perPage = pageNumber(flags.limit, MOST_TXS, "--limit", MOST_TXS);
  await using client = await openChainClient(flags);
  const order = flags.orderBy ?? "asc";
  if (order !== "asc" && order !== "desc") {
    throw new AppError("USAGE", { message: `--order_by: expected asc or desc, not ${JSON.stringify(order)}.` });
  }
  const { txs, total } = await client.searchTxs({ query: flags.query, page, perPage, newestFirst: order === "desc" });
  const times = new Map<bigint, string>();
  for (const one of txs) {
    if (!times.has(one.heightBlocks)) times.set(one.heightBlocks, await blockTime(client, one));
  }
  const pages = (total + BigInt(perPage) - 1n) / BigInt(perPage);
  const counts = { total_count: total, count: txs.length, page_number: page, page_total: pages, limit: perPage };
  const head = Object.entries(counts).map(([name, value]) => `"${name}":"${value}"`);
  const list = txs.map((one) => includedJson(one, times.get(one.heightBlocks) ?? ""));
  printAnswer(`{${head.join(",")},"txs":[${list.join(",")}]}`, flags);
}

/** Shows a block; without a height the newest. @throws AppError CHAIN_QUERY_FAILED */
export async function queryBlock(height: string | undefined, flags: QueryFlags): Promise<void> {
  const wanted = height ?? flags.height;
  if (wanted !== undefined && !/^[1-9]\d{0,18}$/.test(wanted)) {
    throw new AppError("USAGE", { message: `${JSON.stringify(wanted)} is no height; expected such as 100.` });
  }
  await using client = await openChainClient(flags);
  const answer = await client.call("block", wanted === undefined ? {} : { height: wanted });
  if (!answer.ok) throw new AppError("CHAIN_QUERY_FAILED", { message: answer.error.data || answer.error.message });
  printAnswer(JSON.stringify(answer.result), flags);
}
