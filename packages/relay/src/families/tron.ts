import { isRecord } from "@turnpike/base";
import { parseChainCall } from "./chain-call.ts";
import { evmProbe, judgeEvmError } from "./evm.ts";
import { type Family, heightProbe, httpProbeCall, judgeHttpStatus, memberAt, supplierFault } from "./family.ts";

/** java-tron's exceptions for a wrong question. */
const FIXED = /invalid|parse|NumberFormat|IllegalArgument|DecoderException|class java\.lang|not exist|null/i;

/** Tron-style network: Ethereum JSON-RPC at the root, its own REST API on paths. */
export const tron: Family = {
  id: "tron",
  parse: parseChainCall,
  judgeRpcError: judgeEvmError,
  judgeHttpError: judgeHttpStatus,
  // java-tron says `{"Error": "…"}` with status 200.
  judgeHttpBody: (body) => {
    const error = isRecord(body) ? body.Error : undefined;
    if (typeof error !== "string") return undefined;
    return FIXED.test(error) ? "answer" : supplierFault("error");
  },
  errorsOverHttp500: false,
  isLegacyRpc: false,
  probe: (service, rpcType) =>
    rpcType === "json_rpc"
      ? evmProbe(service)
      : heightProbe(httpProbeCall("POST", "/wallet/getnowblock", rpcType), (result) =>
          memberAt(result, "block_header", "raw_data", "number"),
        ),
};
