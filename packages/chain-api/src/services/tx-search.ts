import { errorRow, isAppError } from "@turnpike/base";
import { type QueryAnswer, refuse } from "@turnpike/chain";
import type { ChainSource, SearchResult, StoredTx } from "@turnpike/chain-node";
import { createMessage, tx as txs } from "@turnpike/proto";
import { answered } from "./api-method.ts";
import { readTx, txResponseOf } from "./tx-response.ts";

/** Transactions of a page when the question names no limit, and at most. */
const MOST_PER_PAGE = 100;
const FARTHEST_SKIP = 1_000_000_000;

/** The number that Go makes of an unsigned one, or a default where that is not positive. */
function positive(value: bigint, otherwise: number): number {
  const signed = BigInt.asIntN(64, value);
  return signed <= 0n ? otherwise : Number(signed > BigInt(FARTHEST_SKIP) ? BigInt(FARTHEST_SKIP) : signed);
}

type Found =
  | { readonly ok: true; readonly value: SearchResult<StoredTx> }
  | { readonly ok: false; readonly text: string };

async function search(source: ChainSource, request: txs.GetTxsEventRequest): Promise<Found> {
  const page = positive(request.page, 1);
  const take = Math.min(positive(request.limit, MOST_PER_PAGE), MOST_PER_PAGE);
  const order = request.orderBy === txs.OrderBy.DESC ? "desc" : "asc";
  const skip = Math.min((page - 1) * take, FARTHEST_SKIP);
  try {
    const value = await source.searchTxs(request.query, { order, skip, take });
    const pages = Math.max(1, Math.ceil(value.total / take));
    if (page > pages) return { ok: false, text: `page should be within [1, ${pages}] range, given ${page}` };
    return { ok: true, value };
  } catch (error) {
    if (isAppError(error) && errorRow(error.code).http < 500) return { ok: false, text: error.message };
    throw error;
  }
}

/** `GetTxsEvent`: transactions of a query. The events of older requests are not read (recorded, surprise 9). */
export async function searchTxs(
  source: ChainSource,
  request: txs.GetTxsEventRequest,
): Promise<QueryAnswer<txs.GetTxsEventResponse>> {
  if (request.query === "") return refuse("Internal", "query cannot be empty");
  const found = await search(source, request);
  if (!found.ok) return refuse("Internal", `failed to search for txs: ${found.text}`);
  const { items, total } = found.value;
  const response = createMessage(txs.GetTxsEventResponseSchema, { total: BigInt(total) });
  const times = new Map<bigint, bigint>();
  for (const stored of items) {
    const read = readTx(stored.bytes);
    if (!read.ok) return refuse("Internal", `tx parse error: ${read.text}`);
    const timeNs =
      times.get(stored.heightBlocks) ?? (await source.block(stored.heightBlocks))?.block.header.timeNs ?? 0n;
    times.set(stored.heightBlocks, timeNs);
    response.txs.push(read.tx);
    response.txResponses.push(txResponseOf(stored, read.tx, timeNs));
  }
  return answered(response);
}
