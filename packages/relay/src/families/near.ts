import {
  chainFault,
  type ErrorJudgement,
  type Family,
  finalStep,
  heightProbe,
  judgeHttpStatus,
  memberAt,
  type RpcError,
  rpcProbeCall,
  supplierFault,
  tooMuch,
} from "./family.ts";
import { NEAR_METHODS } from "./methods/near-methods.ts";
import { traitsOf } from "./methods/rules.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** Causes of nearcore's structured errors that are facts of the request or the chain. */
const FIXED =
  /UNKNOWN_ACCOUNT|INVALID_ACCOUNT|INVALID_SHARD_ID|INVALID_TRANSACTION|UNKNOWN_ACCESS_KEY|NO_CONTRACT_CODE|CONTRACT_EXECUTION_ERROR|PARSE_ERROR|UNKNOWN_VALIDATOR|wasm execution failed|does not exist while viewing/i;
const STATE =
  /UNKNOWN_BLOCK|UNKNOWN_CHUNK|UNKNOWN_EPOCH|UNKNOWN_TRANSACTION|GARBAGE_COLLECTED|UNAVAILABLE_SHARD|NOT_SYNCED|NO_SYNCED|TIMEOUT/i;

function judge(error: RpcError): ErrorJudgement {
  if (error.code === -32601) return supplierFault("unsupported");
  // Parameters that cannot be read are repeated in the text.
  const isUnread = error.code === -32602 || error.code === -32700;
  if (!isUnread && /rate ?limit|too many requests/i.test(error.message)) return supplierFault("rate_limited");
  const text = `${error.message} ${error.cause ?? ""} ${error.data ?? ""}`;
  if (/TOO_LARGE|exceeds/i.test(text)) return tooMuch;
  if (STATE.test(text)) return chainFault("state_unavailable");
  if (isUnread || FIXED.test(text)) return "answer";
  return supplierFault("error");
}

/** NEAR-style network. */
export const near: Family = {
  id: "near",
  parse: parseDeclaredCall,
  judgeRpcError: judge,
  judgeHttpError: judgeHttpStatus,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  traits: (call) => traitsOf(NEAR_METHODS, call.method ?? call.operation, call.params),
  probe: () =>
    heightProbe(
      rpcProbeCall("status", []),
      (result) => memberAt(result, "sync_info", "latest_block_height"),
      undefined,
      finalStep(rpcProbeCall("block", { finality: "final" }), (result) => memberAt(result, "header", "height")),
    ),
};
