import type { ClientKey } from "@turnpike/base";
import { type Application, type QueryAnswer, refuse, simulateResponse } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage, encodeMessage, tx as txs } from "@turnpike/proto";

/** Path that clients simulate at. */
export const SIMULATE_PATH = "/cosmos.tx.v1beta1.Service/Simulate";

/** What is said to one too many. */
export const TOO_MANY_SIMULATIONS = "too many simulations wait; try again, or name the gas";

/** Bytes of the transaction of a request; its old form has the parts where a transaction has their bytes. */
export function simulatedBytes({ tx, txBytes }: txs.SimulateRequest): Bytes {
  if (txBytes.length > 0 || tx === undefined) return txBytes;
  return encodeTx(tx);
}

/** Bytes of a transaction from its parts. */
export function encodeTx({ body, authInfo, signatures }: txs.Tx): Bytes {
  const raw = createMessage(txs.TxRawSchema, {
    bodyBytes: encodeMessage(txs.TxBodySchema, body ?? createMessage(txs.TxBodySchema)),
    authInfoBytes: encodeMessage(txs.AuthInfoSchema, authInfo ?? createMessage(txs.AuthInfoSchema)),
    signatures,
  });
  return encodeMessage(txs.TxRawSchema, raw);
}

/** The encoded answer of `Simulate`; undefined for an application that has no threads for it. */
export async function encodedSimulation(
  application: Application,
  request: txs.SimulateRequest,
  client: ClientKey,
): Promise<QueryAnswer<Bytes> | undefined> {
  if (application.simulateEncoded === undefined) return undefined;
  const bytes = simulatedBytes(request);
  if (bytes.length === 0) return refuse("InvalidArgument", "empty txBytes is not allowed");
  const done = await application.simulateEncoded(bytes, "response", client);
  if (done === undefined) return refuse("ResourceExhausted", TOO_MANY_SIMULATIONS);
  if (done.encoded !== undefined) return { ok: true, value: done.encoded };
  const failed = simulateResponse(done.result);
  return failed.ok ? { ok: true, value: encodeMessage(txs.SimulateResponseSchema, failed.value) } : failed;
}
