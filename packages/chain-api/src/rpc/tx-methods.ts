import type { TxResult } from "@turnpike/chain";
import {
  type EmbeddedNode,
  type EventLoopQueue,
  parseEventQuery,
  type StoredTx,
  type Submission,
} from "@turnpike/chain-node";
import { sha256 } from "@turnpike/crypto";
import { BUSY, failed, type RpcOutcome, result, resultText } from "./answers.ts";
import type { ArgumentValue } from "./arguments.ts";
import { ORDER_FAULT, orderOf } from "./block-methods.ts";
import type { EventHub } from "./event-hub.ts";
import { pageFault, pageSize, skipOf } from "./heights.ts";
import { listText, stepsOf } from "./list-text.ts";
import { args, bytesOf, integerOf, type RpcCaller, type RpcMethods, textOf } from "./method.ts";
import { base64OrNull, NO_TX_RESULT, storedTxJson, txResultJson, upperHex } from "./results-json.ts";

/** CometBFT's text for a transaction that it has seen before. */
const KNOWN = "tx already exists in cache";

/** Maximum bytes of the transactions that `unconfirmed_txs` shows, beyond the first. */
const MAX_UNCONFIRMED_BYTES = 4_194_304;

/** Why a transaction was not taken for a check; undefined: it was checked. */
function refusalOf(submission: Submission): string | undefined {
  if (submission.kind === "checked") return undefined;
  return submission.kind === "known" ? KNOWN : submission.text;
}

function broadcastJson(hash: Uint8Array, checked?: TxResult): RpcOutcome {
  return result({
    code: checked?.code ?? 0,
    data: upperHex(checked?.data ?? new Uint8Array(0)),
    log: checked?.log ?? "",
    codespace: checked?.codespace ?? "",
    hash: upperHex(hash),
  });
}

/** Methods that take and show transactions. */
export function txMethods(
  node: EmbeddedNode,
  { hub, queue }: { readonly hub: EventHub; readonly queue: EventLoopQueue },
): RpcMethods {
  const { blocks, mempool } = node;

  const broadcastCommit = async (tx: Uint8Array, { client, signal }: RpcCaller): Promise<RpcOutcome> => {
    const waiting = hub.awaitTx(sha256(tx), client, signal);
    if (!waiting.ok) return failed(waiting.fault);
    try {
      const submission = node.submit(tx);
      if (submission.kind !== "checked") {
        return failed(`error on broadcastTxCommit: ${refusalOf(submission) ?? ""}`);
      }
      const check = txResultJson(submission.result);
      const hash = upperHex(submission.hash);
      if (submission.result.code !== 0) {
        return result({ check_tx: check, tx_result: NO_TX_RESULT, hash, height: "0" });
      }
      const committed = await waiting.committed;
      if (!committed.ok) return failed(committed.fault);
      const { heightBlocks, result: txResult } = committed.tx;
      return result({ check_tx: check, tx_result: txResultJson(txResult), hash, height: heightBlocks.toString() });
    } finally {
      waiting.release();
    }
  };

  const provenJson = (tx: StoredTx, prove: ArgumentValue): ReturnType<typeof storedTxJson> =>
    storedTxJson(tx, prove === true ? blocks.block(tx.heightBlocks)?.block : undefined);

  const txSearch = async (
    [query, prove, page, perPage, orderBy]: readonly ArgumentValue[],
    caller: RpcCaller,
  ): Promise<RpcOutcome> => {
    const parsed = parseEventQuery(textOf(query));
    if (!parsed.ok) return failed(parsed.fault);
    const order = orderOf(textOf(orderBy), "asc");
    if (order === undefined) return failed(ORDER_FAULT);
    const take = pageSize(integerOf(perPage));
    const skip = skipOf(integerOf(page), take);
    const { items, total } = await blocks.searchTxs(textOf(query), { order, skip, take });
    const fault = pageFault(integerOf(page), take, total);
    if (fault !== undefined) return failed(fault);
    // A proof takes the hashes of all transactions of its block.
    const txs = await listText(items, (tx) => provenJson(tx, prove), stepsOf(queue, caller), prove === true);
    return txs === undefined ? BUSY : resultText(`{"txs":${txs},"total_count":"${total}"}`);
  };

  const unconfirmed = async ([limit]: readonly ArgumentValue[], caller: RpcCaller): Promise<RpcOutcome> => {
    let bytes = 0;
    const shown: Uint8Array[] = [];
    for (const tx of mempool.txs(pageSize(integerOf(limit)))) {
      bytes += tx.length;
      if (bytes > MAX_UNCONFIRMED_BYTES && shown.length > 0) break;
      shown.push(tx);
    }
    const counts = `"total":"${mempoolCounts.total()}","total_bytes":"${mempoolCounts.bytes()}"`;
    const txs = await listText(shown, base64OrNull, stepsOf(queue, caller));
    return txs === undefined ? BUSY : resultText(`{"n_txs":"${shown.length}",${counts},"txs":${txs}}`);
  };

  const mempoolCounts = { total: () => mempool.numTxs().toString(), bytes: () => mempool.sizeBytes().toString() };

  return {
    broadcast_tx_async: {
      args: args("tx:bytes"),
      call: ([tx]) => {
        const submission = node.submit(bytesOf(tx));
        const refusal = refusalOf(submission);
        return refusal === undefined ? broadcastJson(submission.hash) : failed(refusal);
      },
    },
    broadcast_tx_sync: {
      args: args("tx:bytes"),
      call: ([tx]) => {
        const submission = node.submit(bytesOf(tx));
        if (submission.kind !== "checked") return failed(refusalOf(submission) ?? "");
        return broadcastJson(submission.hash, submission.result);
      },
    },
    broadcast_tx_commit: { args: args("tx:bytes"), call: ([tx], caller) => broadcastCommit(bytesOf(tx), caller) },
    check_tx: { args: args("tx:bytes"), call: ([tx]) => result(txResultJson(node.check(bytesOf(tx)))) },
    tx: {
      args: args("hash:bytes prove:bool"),
      cacheable: true,
      call: ([hash, prove]) => {
        const wanted = bytesOf(hash);
        if (wanted.length === 0) return failed("transaction hash cannot be empty");
        const tx = blocks.tx(wanted);
        return tx === undefined ? failed(`tx (${upperHex(wanted)}) not found`) : result(provenJson(tx, prove));
      },
    },
    tx_search: { args: args("query:string prove:bool page:int per_page:int order_by:string"), call: txSearch },
    unconfirmed_txs: {
      args: args("limit:int"),
      call: unconfirmed,
    },
    num_unconfirmed_txs: {
      args: [],
      call: () => {
        const total = mempoolCounts.total();
        return result({ n_txs: total, total, total_bytes: mempoolCounts.bytes(), txs: null });
      },
    },
  };
}
