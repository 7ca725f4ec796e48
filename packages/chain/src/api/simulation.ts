import { baseAbci, createMessage, decodeMessage, encodeMessage, toApiJsonText, tx as txs } from "@turnpike/proto";
import type { QueryAnswer } from "../state/module.ts";
import type { TxResult } from "../tx/run-tx.ts";
import type { Bytes } from "../types.ts";

/** Path that clients simulate at; the only method of the transaction service that needs no blocks. */
export const SIMULATE_PATH = "/cosmos.tx.v1beta1.Service/Simulate";

// What the real chain shows where there is no limit.
const NO_GAS_LIMIT = (1n << 64n) - 1n;

function partsOf(result: TxResult): { gasInfo: baseAbci.GasInfo; result: baseAbci.Result } {
  const data = decodeMessage(baseAbci.TxMsgDataSchema, result.data);
  return {
    gasInfo: createMessage(baseAbci.GasInfoSchema, { gasWanted: NO_GAS_LIMIT, gasUsed: result.gasUsed }),
    result: createMessage(baseAbci.ResultSchema, {
      data: result.data,
      log: result.log,
      events: result.events.map(({ type, attributes }) => ({
        type,
        attributes: attributes.map(({ key, value }) => ({ key, value, index: false })),
      })),
      msgResponses: data.ok ? data.message.msgResponses : [],
    }),
  };
}

/** Answers `cosmos.tx.v1beta1.Service/Simulate`. */
export function answerSimulate(request: Bytes, simulate: (tx: Bytes) => TxResult): QueryAnswer<Bytes> {
  const decoded = decodeMessage(txs.SimulateRequestSchema, request);
  if (!decoded.ok) return { ok: false, status: 3, text: decoded.fault };
  const { tx, txBytes } = decoded.message;
  const bytes = tx === undefined ? txBytes : rawOf(tx);
  if (bytes.length === 0) return { ok: false, status: 3, text: "empty txBytes is not allowed" };
  const result = simulate(bytes);
  if (result.code !== 0) {
    return { ok: false, status: 2, text: `${result.log} with gas used: '${result.gasUsed}'` };
  }
  const response = createMessage(txs.SimulateResponseSchema, partsOf(result));
  return { ok: true, value: encodeMessage(txs.SimulateResponseSchema, response) };
}

// The request's old form has the parts where a transaction has their bytes.
function rawOf({ body, authInfo, signatures }: txs.Tx): Bytes {
  const raw = createMessage(txs.TxRawSchema, {
    bodyBytes: encodeMessage(txs.TxBodySchema, body ?? createMessage(txs.TxBodySchema)),
    authInfoBytes: encodeMessage(txs.AuthInfoSchema, authInfo ?? createMessage(txs.AuthInfoSchema)),
    signatures,
  });
  return encodeMessage(txs.TxRawSchema, raw);
}

/** What `/app/simulate` answers: JSON. */
export function simulationJson(result: TxResult): Bytes {
  const response = createMessage(baseAbci.SimulationResponseSchema, partsOf(result));
  return Buffer.from(toApiJsonText(baseAbci.SimulationResponseSchema, response), "utf8");
}
