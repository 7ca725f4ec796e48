import { isRecord } from "@turnpike/base";
import {
  type ErrorJudgement,
  type Family,
  heightProbe,
  httpProbeCall,
  judgeHttpStatus,
  memberAt,
  supplierFault,
} from "./family.ts";
import { radixTraits } from "./methods/radix-methods.ts";
import { parseDeclaredCall } from "./paid-call.ts";

function judge(status: number, body: unknown): ErrorJudgement {
  const isStated = isRecord(body) && Number.isInteger(body.code) && typeof body.message === "string";
  return (status === 400 || status === 404) && isStated ? "answer" : judgeHttpStatus(status);
}

/** The Gateway API and the Core API have each their own status path. */
const GATEWAY_STATUS = "POST /status/gateway-status";

/** Radix-style network: the Gateway API, JSON over POST. */
export const radix: Family = {
  id: "radix",
  parse: parseDeclaredCall,
  judgeRpcError: () => supplierFault("error"),
  judgeHttpError: judge,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  traits: radixTraits,
  probe: (service, rpcType) =>
    service.operations.has(GATEWAY_STATUS)
      ? heightProbe(
          httpProbeCall("POST", "/status/gateway-status", rpcType),
          (result) => memberAt(result, "ledger_state", "state_version"),
          0,
        )
      : heightProbe(
          httpProbeCall("POST", "/status/network-status", rpcType),
          (result) => memberAt(result, "current_state_identifier", "state_version"),
          0,
        ),
};
