import { isRecord } from "@turnpike/base";
import { parseSearchRequest, type Service } from "@turnpike/catalogue";
import {
  type CallInput,
  type Family,
  httpProbeCall,
  judgeHttpStatus,
  type ParsedCall,
  supplierFault,
} from "./family.ts";
import { parseDeclaredCall } from "./paid-call.ts";

const UPSTREAM_PATH = "/v1/search";
const ROOT = "POST /";

const REFUSALS = { too_large: "BODY_TOO_LARGE", batch: "BATCH_NOT_SOLD", duplicate: "DUPLICATE_KEY" } as const;

function parseSearch(body: Uint8Array): ParsedCall {
  const parsed = parseSearchRequest(body);
  if (!parsed.ok) {
    return parsed.reason === "invalid"
      ? { ok: false, code: "VALIDATION_FAILED", detail: parsed.detail }
      : { ok: false, code: REFUSALS[parsed.reason] };
  }
  const limit = parsed.maxResults === undefined ? "" : `,"max_results":${parsed.maxResults}`;
  return {
    ok: true,
    call: {
      rpcType: "rest",
      operation: ROOT,
      verb: "POST",
      path: UPSTREAM_PATH,
      body: Buffer.from(`{"query":${parsed.rawQuery}${limit}}`),
      id: undefined,
      params: { query: parsed.query },
    },
  };
}

function parse(service: Service, input: CallInput): ParsedCall {
  if (input.appendedPath !== "") {
    const isSearch = input.appendedPath === UPSTREAM_PATH && service.operations.has(`POST ${UPSTREAM_PATH}`);
    if (!isSearch || input.verb === "GET") return parseDeclaredCall(service, input);
  } else if (input.verb === "GET") return { ok: false, code: "VERB_NOT_ALLOWED" };
  return parseSearch(input.body);
}

/** Web search: `{query, max_results}`, with FastAPI's validation errors (spec §2.5, 4.1.1). */
export const search: Family = {
  id: "search",
  parse,
  judgeRpcError: () => supplierFault("error"),
  judgeHttpError: judgeHttpStatus,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  probe: (_service, rpcType) => ({
    isRequired: false,
    steps: [
      {
        call: httpProbeCall("GET", "/healthz", rpcType),
        read: (result) => (isRecord(result) ? { ok: true } : { ok: false, reason: "bad_answer" }),
      },
    ],
  }),
};
