import { AppError } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage, decodeMessage, encodeMessage, fromApiJson, toApiJson, tx as txs } from "@turnpike/proto";
import type { Context } from "../../state/context.ts";
import type { GenesisType } from "../../state/genesis-types.ts";
import { genesisList, type Module, type ValidatorUpdate } from "../../state/module.ts";
import type { TxResult } from "../../state/outcome.ts";
import { lastPowers } from "../staking/state.ts";
import { updateValidatorSet } from "../staking/validator-set.ts";

/** Name of the module. It keeps no state. */
const GENUTIL_MODULE = "genutil";

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis transactions are not valid: ${why}.` });

/**
 * A transaction as JSON: the bytes that its signers signed. Its texts are read when it is run, as those of all transactions:
 * another form of them would be other bytes.
 */
const GENESIS_TX: GenesisType<Bytes> = {
  read(json) {
    const read = fromApiJson(txs.TxSchema, json);
    if (!read.ok) return read;
    const { body, authInfo, signatures } = read.message;
    if (body === undefined || authInfo === undefined) return { ok: false, fault: "no body or no signers" };
    const raw = createMessage(txs.TxRawSchema, {
      bodyBytes: encodeMessage(txs.TxBodySchema, body),
      authInfoBytes: encodeMessage(txs.AuthInfoSchema, authInfo),
      signatures,
    });
    return { ok: true, value: encodeMessage(txs.TxRawSchema, raw) };
  },
  write(bytes) {
    const decoded = decodeMessage(txs.TxSchema, bytes);
    return decoded.ok ? toApiJson(txs.TxSchema, decoded.message) : null;
  },
  texts: {},
  schemas: [txs.TxSchema],
};

function init(
  ctx: Context,
  list: readonly Bytes[],
  runTx: (bytes: Bytes) => TxResult,
): readonly ValidatorUpdate[] | undefined {
  if (list.length === 0) return undefined;
  for (const _ of lastPowers.entries(ctx)) throw invalid("the genesis of staking has validators, too");
  for (const [i, bytes] of list.entries()) {
    const result = runTx(bytes);
    if (result.code !== 0) throw invalid(`number ${i}: ${result.log}`);
  }
  return updateValidatorSet(ctx);
}

/**
 * The module that runs the transactions of a genesis (`gen_txs`), signed at account number 0 and sequence 0, by which the
 * first validators stake; it stands behind auth, bank and staking. A genesis that was exported has none.
 */
export function genutilModule(): Module {
  const transactions = genesisList("gen_txs", GENESIS_TX, { init, export: () => [] });
  return { name: GENUTIL_MODULE, genesis: { lists: [transactions] } };
}
