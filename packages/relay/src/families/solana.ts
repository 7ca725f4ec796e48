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
import { SOLANA_METHODS } from "./methods/solana-methods.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** Wrong parameters, and a simulation that failed: their texts repeat what the client and its programs say. */
const CLIENT_CODES = new Set([-32602, -32002]);
/** Custom codes of Agave's `rpc-client-api`: -32003 and -32013 signature, -32015 version. Proxies say limits with them. */
const FIXED_CODES = new Set([-32003, -32013, -32015]);
/** Slot or block that this node does not have (yet), node behind, minimum context slot. "Skipped" cannot be distinguished from "missing". */
const STATE_CODES = new Set([-32001, -32004, -32007, -32008, -32009, -32011, -32014, -32016]);

function judge(error: RpcError): ErrorJudgement {
  if (error.code === -32601) return supplierFault("unsupported");
  if (CLIENT_CODES.has(error.code)) return "answer";
  if (/rate ?limit|too many requests/i.test(error.message)) return supplierFault("rate_limited");
  if (FIXED_CODES.has(error.code)) return "answer";
  if (STATE_CODES.has(error.code)) return chainFault("state_unavailable");
  // -32010: excluded from this node's account indexes, or too many accounts.
  return error.code === -32010 ? tooMuch : supplierFault("error");
}

/** Solana-style network. */
export const solana: Family = {
  id: "solana",
  parse: parseDeclaredCall,
  judgeRpcError: judge,
  judgeHttpError: judgeHttpStatus,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  traits: (call) => traitsOf(SOLANA_METHODS, call.method ?? call.operation, call.params),
  // Without a commitment: the newest finalised slot.
  probe: () => heightProbe(rpcProbeCall("getSlot", []), (result) => result, 0),
};
