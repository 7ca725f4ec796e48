import {
  chainFault,
  type ErrorJudgement,
  type Family,
  heightProbe,
  judgeHttpStatus,
  type RpcError,
  rpcProbeCall,
  supplierFault,
} from "./family.ts";
import { BITCOIN_METHODS } from "./methods/bitcoin-methods.ts";
import { traitsOf } from "./methods/rules.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** Codes of Bitcoin Core's `rpc/protocol.h`: type error, invalid address or key, invalid parameter, deserialization, misc (wrong arguments). */
const FIXED_CODES = new Set([-1, -3, -5, -8, -22, -32602]);

function judge(error: RpcError): ErrorJudgement {
  const { code, message } = error;
  if (code === -32601) return supplierFault("unsupported");
  if (/txindex|pruned|not available|block not found/i.test(message)) return chainFault("state_unavailable");
  return FIXED_CODES.has(code) ? "answer" : supplierFault("error");
}

/** Nothing is ever final. After so many blocks even the network's own rewards may be spent (`COINBASE_MATURITY`). */
const FINALITY_BLOCKS = 100;

/** Bitcoin-style networks; nodes before Bitcoin Core 28 answer in the manner of JSON-RPC 1. */
export const bitcoin: Family = {
  id: "bitcoin",
  parse: parseDeclaredCall,
  judgeRpcError: judge,
  judgeHttpError: judgeHttpStatus,
  errorsOverHttp500: true,
  isLegacyRpc: true,
  traits: (call) => traitsOf(BITCOIN_METHODS, call.method ?? call.operation, call.params),
  probe: () => heightProbe(rpcProbeCall("getblockcount", []), (result) => result, FINALITY_BLOCKS),
};
