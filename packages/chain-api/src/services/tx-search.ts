import type { MessageInitShape } from "@bufbuild/protobuf";
import { errorRow, isAppError } from "@turnpike/base";
import { type QueryAnswer, refuse } from "@turnpike/chain";
import { type ChainSource, makeInSteps, type SearchResult, type StoredTx } from "@turnpike/chain-node";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { answered, type CallContext } from "./api-method.ts";
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

/** A transaction as in a response, in the bytes of two parts of the response. */
type EncodedTx =
  | { readonly ok: true; readonly tx: Bytes; readonly response: Bytes }
  | { readonly ok: false; readonly text: string };

const encodePart = (part: MessageInitShape<typeof txs.GetTxsEventResponseSchema>): Bytes =>
  encodeMessage(txs.GetTxsEventResponseSchema, createMessage(txs.GetTxsEventResponseSchema, part));

/** `GetTxsEvent`: transactions of a query. The events of older requests are not read (recorded, surprise 9). */
export async function searchTxs(
  source: ChainSource,
  request: txs.GetTxsEventRequest,
  { run }: Pick<CallContext, "run">,
): Promise<QueryAnswer<Bytes>> {
  if (request.query === "") return refuse("Internal", "query cannot be empty");
  const found = await search(source, request);
  if (!found.ok) return refuse("Internal", `failed to search for txs: ${found.text}`);
  const { items, total } = found.value;
  const times = new Map<bigint, bigint>();
  const make = async (stored: StoredTx): Promise<{ value: EncodedTx; bytes: number }> => {
    const read = readTx(stored.bytes);
    if (!read.ok) return { value: { ok: false, text: read.text }, bytes: 0 };
    const timeNs =
      times.get(stored.heightBlocks) ?? (await source.block(stored.heightBlocks))?.block.header.timeNs ?? 0n;
    times.set(stored.heightBlocks, timeNs);
    const tx = encodePart({ txs: [read.tx] });
    const response = encodePart({ txResponses: [txResponseOf(stored, read.tx, timeNs)] });
    return { value: { ok: true, tx, response }, bytes: tx.length + response.length };
  };
  const made = await makeInSteps(items, make, run);
  if (made === undefined) return refuse("ResourceExhausted", "too many requests wait");
  const parts: Bytes[] = [];
  for (const each of made) {
    if (!each.ok) return refuse("Internal", `tx parse error: ${each.text}`);
    parts.push(each.tx);
  }
  for (const each of made) if (each.ok) parts.push(each.response);
  // Items of a repeated field and fields may follow each other as messages do (protobuf, "Last One Wins").
  return answered(Buffer.concat([...parts, encodePart({ total: BigInt(total) })]));
}
