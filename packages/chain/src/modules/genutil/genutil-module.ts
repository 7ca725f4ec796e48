import { AppError, isRecord } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage, encodeMessage, fromApiJson, tx as txs } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import type { Module, ValidatorUpdate } from "../../state/module.ts";
import type { TxResult } from "../../state/outcome.ts";
import { lastPowers } from "../staking/state.ts";
import { updateValidatorSet } from "../staking/validator-set.ts";

/** Name of the module. It keeps no state. */
const GENUTIL_MODULE = "genutil";

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis transactions are not valid: ${why}.` });

/** Bytes of a transaction that a genesis has as JSON: what its signers signed. */
function bytesOf(json: unknown): Bytes {
  const read = fromApiJson(txs.TxSchema, json);
  if (!read.ok) throw invalid(read.fault);
  const { body, authInfo, signatures } = read.message;
  if (body === undefined || authInfo === undefined) throw invalid("one has no body or no signers");
  const raw = createMessage(txs.TxRawSchema, {
    bodyBytes: encodeMessage(txs.TxBodySchema, body),
    authInfoBytes: encodeMessage(txs.AuthInfoSchema, authInfo),
    signatures,
  });
  return encodeMessage(txs.TxRawSchema, raw);
}

function init(ctx: Context, json: unknown, runTx: (bytes: Bytes) => TxResult): ValidatorUpdate[] {
  const list = isRecord(json) ? (json["gen_txs"] ?? []) : [];
  if (!Array.isArray(list)) throw invalid("gen_txs is no list");
  if (list.length === 0) return [];
  for (const _ of lastPowers.entries(ctx)) throw invalid("the genesis of staking has validators, too");
  for (const [i, item] of list.entries()) {
    const result = runTx(bytesOf(item));
    if (result.code !== 0) throw invalid(`number ${i}: ${result.log}`);
  }
  return updateValidatorSet(ctx);
}

/**
 * The module that runs the transactions of a genesis (`gen_txs`), signed at account number 0 and sequence 0, by which the
 * first validators stake; it stands behind auth, bank and staking. A genesis that was exported has none.
 */
export function genutilModule(): Module {
  return { name: GENUTIL_MODULE, jsonGenesis: { init, export: () => ({ gen_txs: [] }) } };
}
