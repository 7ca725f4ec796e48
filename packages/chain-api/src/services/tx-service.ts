import type { ClientKey } from "@turnpike/base";
import { GRPC_STATUS, type QueryAnswer, refuse, simulateResponse } from "@turnpike/chain";
import type { Submission } from "@turnpike/chain-node";
import { type baseQuery, createMessage, tx as txs } from "@turnpike/proto";
import { type ApiMethod, type ApiModules, answered, apiMethod, type CallContext } from "./api-method.ts";
import { blockMessages } from "./block-messages.ts";
import { parseGoHex } from "./go-values.ts";
import { encodeTx, SIMULATE_PATH, simulatedBytes, TOO_MANY_SIMULATIONS } from "./simulation.ts";
import { readTx, txResponseOf, upperHex } from "./tx-response.ts";
import { searchTxs } from "./tx-search.ts";

/** Path that transactions are sent to. */
export const BROADCAST_PATH = "/cosmos.tx.v1beta1.Service/BroadcastTx";
const DEFAULT_BLOCK_TXS = 100n;
const { BroadcastMode } = txs;

const MODE_NAMES: Readonly<Record<number, string>> = {
  [BroadcastMode.BLOCK]: "block",
  [BroadcastMode.SYNC]: "sync",
  [BroadcastMode.ASYNC]: "async",
};

function submissionResponse(sent: Submission, mode: string): QueryAnswer<txs.BroadcastTxResponse> {
  const txhash = upperHex(sent.hash);
  const respond = (fields: { code?: number; codespace?: string; rawLog?: string; data?: string }) =>
    answered(createMessage(txs.BroadcastTxResponseSchema, { txResponse: { txhash, ...fields } }));
  if (sent.kind === "known") return respond({ code: 19, codespace: "sdk" });
  if (sent.kind === "refused") {
    if (sent.text.startsWith("mempool is full")) return respond({ code: 20, codespace: "sdk" });
    if (sent.text.startsWith("Tx too large")) return respond({ code: 21, codespace: "sdk" });
    return refuse("Unknown", sent.text);
  }
  if (mode === "async") return respond({});
  const { code, codespace, log, data } = sent.result;
  return respond({ code, codespace, rawLog: log, data: upperHex(data) });
}

async function broadcast({ source }: ApiModules, request: txs.BroadcastTxRequest) {
  if (request.txBytes.length === 0) return refuse("InvalidArgument", "invalid empty tx");
  const mode = MODE_NAMES[request.mode] ?? "unspecified";
  if (mode !== "sync" && mode !== "async") {
    return refuse("Unknown", `unsupported return type ${mode}; supported types: sync, async`);
  }
  return submissionResponse(await source.submit(request.txBytes), mode);
}

async function simulate(
  { application }: ApiModules,
  request: txs.SimulateRequest,
  client: ClientKey,
): Promise<QueryAnswer<txs.SimulateResponse>> {
  const bytes = simulatedBytes(request);
  if (bytes.length === 0) return refuse("InvalidArgument", "empty txBytes is not allowed");
  const result = await application.simulate(bytes, client);
  return result === undefined ? refuse("ResourceExhausted", TOO_MANY_SIMULATIONS) : simulateResponse(result);
}

async function getTx({ source }: ApiModules, { hash }: txs.GetTxRequest): Promise<QueryAnswer<txs.GetTxResponse>> {
  if (hash === "") return refuse("InvalidArgument", "tx hash cannot be empty");
  const bytes = parseGoHex(hash);
  if (!bytes.ok) return refuse("Unknown", bytes.text);
  const stored = bytes.value.length === 32 ? await source.tx(bytes.value) : undefined;
  if (stored === undefined) return refuse("NotFound", `tx not found: ${hash}`);
  const read = readTx(stored.bytes);
  if (!read.ok) return refuse("Unknown", `tx parse error: ${read.text}`);
  const timeNs = (await source.block(stored.heightBlocks))?.block.header.timeNs ?? 0n;
  const txResponse = txResponseOf(stored, read.tx, timeNs);
  return answered(createMessage(txs.GetTxResponseSchema, { tx: read.tx, txResponse }));
}

/** Places in a block of the transactions that a page takes, as the SDK walks them. */
function placesOf(total: bigint, page: baseQuery.PageRequest | undefined): number[] {
  const offset = page?.offset ?? 0n;
  const limit = page === undefined ? DEFAULT_BLOCK_TXS : page.limit;
  const places: number[] = [];
  if (page?.reverse === true) {
    for (let i = offset < total ? offset : 0n; i > 0n && BigInt(places.length) < limit; i--) places.push(Number(i));
  } else {
    for (let i = offset; i < total && BigInt(places.length) < limit; i++) places.push(Number(i));
  }
  return places;
}

async function blockWithTxs(
  { source }: ApiModules,
  { height, pagination }: txs.GetBlockWithTxsRequest,
  call: CallContext,
): Promise<QueryAnswer<txs.GetBlockWithTxsResponse>> {
  if (height < 1n || height > call.heightBlocks) {
    const rule = `requested height ${height} but height must not be less than 1 or greater than the current height`;
    return refuse("Unknown", `codespace sdk code 26: invalid height: ${rule} ${call.heightBlocks}`);
  }
  const stored = await source.block(height);
  if (stored === undefined) return refuse("Unknown", `height ${height} is not available`);
  const total = BigInt(stored.block.txs.length);
  const offset = pagination?.offset ?? 0n;
  if (total > 0n && offset >= total) {
    const limit = pagination?.limit ?? DEFAULT_BLOCK_TXS;
    const text = `cannot paginate ${total} txs with offset ${offset} and limit ${limit}`;
    return refuse("Unknown", `codespace sdk code 18: invalid request: out of range: ${text}`);
  }
  const found: txs.Tx[] = [];
  for (const place of placesOf(total, pagination)) {
    const bytes = stored.block.txs[place];
    if (bytes === undefined) continue;
    const read = readTx(bytes);
    if (!read.ok) return refuse("Unknown", `codespace sdk code 2: tx parse error: ${read.text}`);
    found.push(read.tx);
  }
  const { blockId, block } = blockMessages(stored);
  return answered(
    createMessage(txs.GetBlockWithTxsResponseSchema, { txs: found, blockId, block, pagination: { total } }),
  );
}

const decode = ({ txBytes }: txs.TxDecodeRequest): QueryAnswer<txs.TxDecodeResponse> => {
  if (txBytes.length === 0) return refuse("InvalidArgument", "invalid empty tx bytes");
  const read = readTx(txBytes);
  if (!read.ok)
    return { ok: false, status: GRPC_STATUS.Unknown, text: `codespace sdk code 2: tx parse error: ${read.text}` };
  return answered(createMessage(txs.TxDecodeResponseSchema, { tx: read.tx }));
};

const encode = ({ tx }: txs.TxEncodeRequest): QueryAnswer<txs.TxEncodeResponse> =>
  tx === undefined
    ? refuse("InvalidArgument", "invalid empty tx")
    : answered(createMessage(txs.TxEncodeResponseSchema, { txBytes: encodeTx(tx) }));

/** `cosmos.tx.v1beta1.Service` by gRPC path. Its amino methods are not served: this chain signs no amino JSON. */
export function txService(modules: ApiModules): Record<string, ApiMethod> {
  const path = (name: string): string => `/cosmos.tx.v1beta1.Service/${name}`;
  return {
    [SIMULATE_PATH]: apiMethod(txs.SimulateRequestSchema, txs.SimulateResponseSchema, (request, { client }) =>
      simulate(modules, request, client),
    ),
    [path("GetTx")]: apiMethod(txs.GetTxRequestSchema, txs.GetTxResponseSchema, (r) => getTx(modules, r)),
    [BROADCAST_PATH]: apiMethod(txs.BroadcastTxRequestSchema, txs.BroadcastTxResponseSchema, (r) =>
      broadcast(modules, r),
    ),
    [path("GetTxsEvent")]: apiMethod(txs.GetTxsEventRequestSchema, txs.GetTxsEventResponseSchema, (r, call) =>
      searchTxs(modules.source, r, call),
    ),
    [path("GetBlockWithTxs")]: apiMethod(
      txs.GetBlockWithTxsRequestSchema,
      txs.GetBlockWithTxsResponseSchema,
      (r, call) => blockWithTxs(modules, r, call),
    ),
    [path("TxDecode")]: apiMethod(txs.TxDecodeRequestSchema, txs.TxDecodeResponseSchema, decode),
    [path("TxEncode")]: apiMethod(txs.TxEncodeRequestSchema, txs.TxEncodeResponseSchema, encode),
  };
}
