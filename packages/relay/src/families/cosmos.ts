import { isRecord } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { errorText } from "./error-text.ts";
import {
  chainFault,
  type ErrorJudgement,
  type Family,
  httpProbeCall,
  judgeHttpStatus,
  memberAt,
  type Probe,
  type RpcError,
  readHeight,
  supplierFault,
} from "./family.ts";
import { cosmosTraits } from "./methods/cosmos-methods.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** Texts of CometBFT 0.38 and the Cosmos SDK 0.5x that a right node gives to a wrong question; see `test/spec/recorded-cosmos`. */
const FIXED =
  /height -?\d+ must be less than or equal|height must be greater than|min height -?\d+ can't be greater|there are \d+ chunks|tx \(\w*\) not found|hash cannot be empty|^offset \d+: |page should be within|per_page|converting (?:json|http) params|cannot query with height|requested height|requested block height|invalid height|block height \d+ is ahead|decoding bech32 failed|invalid bech32|encoding\/hex|illegal base64|(?:query|address|request|string).{0,20} cannot be empty|must declare|either offset or key|invalid request|invalid address|invalid denom|type mismatch|strconv\.|not staked for service|not found/i;
/** Another supplier may keep more, or index it. */
const STATE =
  /pruned|not available|lowest height|version does not exist|failed to load state|could not find (?:results|consensus)|indexing is disabled|disabled/i;

/** The REST API: errors that the chain's modules have registered, and gRPC's codes for a wrong question. */
const MODULE_ERROR =
  /^codespace (?!undefined)\w+ code \d+: |contract failed|rpc error: code = (?:InvalidArgument|NotFound)/;

const OK_CODES = new Set([3, 5, 9, 11]);

/** Judges an error of CometBFT's RPC; what went wrong stands in `data`. */
function judgeCometError(error: RpcError): ErrorJudgement {
  const { code, message, data } = error;
  const text = data === undefined || data === "" ? message : data;
  if (code === -32601) return supplierFault("unsupported");
  if (STATE.test(text)) return chainFault("state_unavailable");
  if (code === -32602 || FIXED.test(text)) return "answer";
  return supplierFault("error");
}

/** Judges an error of the REST API (gRPC gateway): `{code, message, details}`. */
function judgeLcdError(status: number, body: unknown): ErrorJudgement {
  if (status === 429) return judgeHttpStatus(status);
  const code = isRecord(body) ? body.code : undefined;
  const message = isRecord(body) ? errorText(body.message) : undefined;
  if (typeof code !== "number" || !Number.isInteger(code) || message === undefined) return judgeHttpStatus(status);
  // The gRPC gateway says no more than that of a path which it does not have; a module names what it has not found.
  const isNoPath = status === 404 && code === 5 && message === "Not Found";
  if (code === 12 || status === 501 || isNoPath) return supplierFault("unsupported");
  if (STATE.test(message)) return chainFault("state_unavailable");
  if ((status === 400 || status === 404) && OK_CODES.has(code)) return "answer";
  // The SDK gives code 2 or 13 with status 500 to many wrong questions.
  if (status === 500 && (code === 2 || code === 13) && (FIXED.test(message) || MODULE_ERROR.test(message))) {
    return "answer";
  }
  return judgeHttpStatus(status);
}

/** The Cosmos chain id of a service with this family alone; those with two families name it in no fixed form. */
function expectedChain(service: Service): string | undefined {
  return service.families.length === 1 ? service.chainId : undefined;
}

function chainProbe(service: Service, path: string, rpcType: "rest" | "comet_bft"): Probe {
  const names = rpcType === "rest" ? ["block", "header", "chain_id"] : ["node_info", "network"];
  const height = rpcType === "rest" ? ["block", "header", "height"] : ["sync_info", "latest_block_height"];
  const expected = expectedChain(service);
  return {
    isRequired: false,
    steps: [
      {
        call: httpProbeCall("GET", path, rpcType),
        read: (result) => {
          const chain = memberAt(result, ...names);
          if (expected !== undefined && typeof chain === "string" && chain !== expected) {
            return { ok: false, reason: "wrong_chain" };
          }
          const heightBlocks = readHeight(memberAt(result, ...height));
          // A block is committed when it is final.
          return heightBlocks === undefined
            ? { ok: false, reason: "bad_answer" }
            : { ok: true, heightBlocks, finalBlocks: heightBlocks };
        },
      },
    ],
  };
}

/** Cosmos-style networks: CometBFT RPC over POST and GET, and the REST API. */
export const cosmos: Family = {
  id: "cosmos",
  parse: parseDeclaredCall,
  judgeRpcError: judgeCometError,
  judgeHttpError: judgeLcdError,
  errorsOverHttp500: true,
  isLegacyRpc: false,
  traits: cosmosTraits,
  probe: (service, rpcType) => {
    if (rpcType === "comet_bft") return chainProbe(service, "/status", "comet_bft");
    if (rpcType === "rest") return chainProbe(service, "/cosmos/base/tendermint/v1beta1/blocks/latest", "rest");
    return undefined;
  },
};
