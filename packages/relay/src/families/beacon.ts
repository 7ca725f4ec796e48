import { isRecord } from "@turnpike/base";
import { errorText } from "./error-text.ts";
import {
  type ErrorJudgement,
  type Family,
  finalStep,
  heightProbe,
  httpProbeCall,
  judgeHttpStatus,
  memberAt,
  supplierFault,
} from "./family.ts";
import { beaconTraits } from "./methods/beacon-methods.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** What Lodestar and Teku say of a path that they do not have. Others say the same of a block that is not there. */
const NO_PATH = /^(?:route|endpoint) .{1,512} not found/i;

function judge(status: number, body: unknown): ErrorJudgement {
  const message = isRecord(body) && body.code === status ? errorText(body.message) : undefined;
  if (message === undefined) return judgeHttpStatus(status);
  if (NO_PATH.test(message)) return supplierFault("unsupported");
  return status === 400 || status === 404 ? "answer" : judgeHttpStatus(status);
}

/** Consensus layer of Ethereum: the Beacon API. */
export const beacon: Family = {
  id: "beacon",
  parse: parseDeclaredCall,
  judgeRpcError: () => supplierFault("error"),
  judgeHttpError: judge,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  traits: beaconTraits,
  probe: (_service, rpcType) =>
    heightProbe(
      httpProbeCall("GET", "/eth/v1/node/syncing", rpcType),
      (result) => memberAt(result, "data", "head_slot"),
      undefined,
      finalStep(httpProbeCall("GET", "/eth/v1/beacon/headers/finalized", rpcType), (result) =>
        memberAt(result, "data", "header", "message", "slot"),
      ),
    ),
};
