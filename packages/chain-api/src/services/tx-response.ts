import { bytesToHex } from "@turnpike/base";
import { eventMessages } from "@turnpike/chain";
import type { StoredTx } from "@turnpike/chain-node";
import type { Bytes } from "@turnpike/chain-store";
import { nsToRfc3339 } from "@turnpike/cometbft";
import { baseAbci, createMessage, decodeMessage, packAny, tx as txs } from "@turnpike/proto";

const NS_PER_SECOND = 1_000_000_000n;

/** Bytes as upper-case hex: hashes and data of transactions. */
export function upperHex(bytes: Bytes): string {
  return bytesToHex(bytes).toUpperCase();
}

/** A transaction read from its bytes, or what is wrong with them. */
export type ReadTx = { readonly ok: true; readonly tx: txs.Tx } | { readonly ok: false; readonly text: string };

/** Reads a transaction's parts; whether it is valid is not looked at. */
export function readTx(bytes: Bytes): ReadTx {
  const raw = decodeMessage(txs.TxRawSchema, bytes);
  if (!raw.ok) return { ok: false, text: raw.fault };
  const body = decodeMessage(txs.TxBodySchema, raw.message.bodyBytes);
  if (!body.ok) return { ok: false, text: body.fault };
  const authInfo = decodeMessage(txs.AuthInfoSchema, raw.message.authInfoBytes);
  if (!authInfo.ok) return { ok: false, text: authInfo.fault };
  const { signatures } = raw.message;
  return {
    ok: true,
    tx: createMessage(txs.TxSchema, { body: body.message, authInfo: authInfo.message, signatures }),
  };
}

/**
 * A transaction in a block, in the SDK's form.
 * @param timeNs time of its block
 */
export function txResponseOf(
  { hash, heightBlocks, result }: StoredTx,
  tx: txs.Tx,
  timeNs: bigint,
): baseAbci.TxResponse {
  const { code, codespace, log: rawLog, data, gasWanted, gasUsed, events } = result;
  return createMessage(baseAbci.TxResponseSchema, {
    height: heightBlocks,
    txhash: upperHex(hash),
    code,
    codespace,
    rawLog,
    data: upperHex(data),
    gasWanted,
    gasUsed,
    tx: packAny(txs.TxSchema, tx),
    timestamp: nsToRfc3339(timeNs - (((timeNs % NS_PER_SECOND) + NS_PER_SECOND) % NS_PER_SECOND)),
    events: eventMessages(events),
  });
}
