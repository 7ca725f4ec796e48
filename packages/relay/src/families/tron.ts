import { isRecord } from "@turnpike/base";
import { errorText } from "./error-text.ts";
import { evmProbe, judgeEvmError } from "./evm.ts";
import {
  type Family,
  finalStep,
  heightProbe,
  httpProbeCall,
  judgeHttpStatus,
  memberAt,
  supplierFault,
} from "./family.ts";
import { tronTraits } from "./methods/tron-methods.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** java-tron's exceptions for a wrong question, and for one that the chain's state refuses. */
const FIXED =
  /invalid|parse|NumberFormat|IllegalArgument|DecoderException|class java\.lang|not exist|null|Contract(?:Validate|Exe)Exception/i;
/** What java-tron says, with status 200, when it has no room for another request. Inside another text it is the client's. */
const BUSY = /^class java\.lang\.IllegalAccessException : lack of computing resources/i;

const height = (result: unknown): unknown => memberAt(result, "block_header", "raw_data", "number");

/** Tron-style network: Ethereum JSON-RPC at the root, its own REST API on paths. */
export const tron: Family = {
  id: "tron",
  parse: parseDeclaredCall,
  judgeRpcError: judgeEvmError,
  judgeHttpError: judgeHttpStatus,
  // java-tron says `{"Error": "…"}` with status 200.
  judgeHttpBody: (body) => {
    const error = isRecord(body) ? errorText(body.Error) : undefined;
    if (error === undefined) return undefined;
    if (BUSY.test(error)) return supplierFault("rate_limited");
    return FIXED.test(error) ? "answer" : supplierFault("error");
  },
  errorsOverHttp500: false,
  traits: tronTraits,
  isLegacyRpc: false,
  probe: (service, rpcType) =>
    rpcType === "json_rpc"
      ? evmProbe(service)
      : heightProbe(
          httpProbeCall("POST", "/wallet/getnowblock", rpcType),
          height,
          undefined,
          finalStep(httpProbeCall("POST", "/walletsolidity/getnowblock", rpcType), height),
        ),
};
