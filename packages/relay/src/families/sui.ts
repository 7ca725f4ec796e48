import type { BackendCall } from "@turnpike/protocol";
import {
  chainFault,
  type ErrorJudgement,
  type Family,
  heightProbe,
  judgeHttpStatus,
  type RpcError,
  rpcProbeCall,
  supplierFault,
  tooMuch,
} from "./family.ts";
import { traitsOf } from "./methods/rules.ts";
import { SUI_METHODS } from "./methods/sui-methods.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** Sui's own code for a transaction that cannot be executed, whichever node is asked. */
const TRANSACTION_CODE = -32002;
/** Calls whose size no client chooses. */
const SMALL =
  /^(?:sui_get(?:ChainIdentifier|LatestCheckpointSequenceNumber|TotalTransactionBlocks)|suix_getReferenceGasPrice)$/;

function judge(error: RpcError, { method = "" }: BackendCall): ErrorJudgement {
  const { code, message } = error;
  if (code === -32601) return supplierFault("unsupported");
  if (code === TRANSACTION_CODE) return "answer";
  // Parameters that cannot be read are repeated in the text.
  if (code !== -32602 && /rate ?limit|too many requests/i.test(message)) return supplierFault("rate_limited");
  if (/pruned|checkpoint .{0,64} not found|could not find the referenced transaction/i.test(message)) {
    return chainFault("state_unavailable");
  }
  if (/limit|too (?:many|large)/i.test(message)) return SMALL.test(method) ? supplierFault("rate_limited") : tooMuch;
  return code === -32602 ? "answer" : supplierFault("error");
}

/** Sui-style network. */
export const sui: Family = {
  id: "sui",
  parse: parseDeclaredCall,
  judgeRpcError: judge,
  judgeHttpError: judgeHttpStatus,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  traits: (call) => traitsOf(SUI_METHODS, call.method ?? call.operation, call.params),
  probe: () => heightProbe(rpcProbeCall("sui_getLatestCheckpointSequenceNumber", []), (result) => result, 0),
};
