import { isRecord, parseJson } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { parseChainCall } from "./chain-call.ts";
import {
  type CallInput,
  type Family,
  httpProbeCall,
  judgeHttpStatus,
  type ParsedCall,
  supplierFault,
  type ValidationDetail,
} from "./family.ts";

/** Largest body of a search, in bytes (spec §8). */
export const MAX_SEARCH_BODY_BYTES = 16_384;
/** Most results that are asked for upstream; larger wishes are taken as this. */
export const MAX_SEARCH_RESULTS = 50;

const UPSTREAM_PATH = "/v1/search";
const ROOT = "POST /";

const detail = (type: string, msg: string, ...loc: readonly (string | number)[]): ValidationDetail => ({
  loc: ["body", ...loc],
  msg,
  type,
});
const invalid = (...found: readonly ValidationDetail[]): ParsedCall => ({
  ok: false,
  code: "VALIDATION_FAILED",
  detail: found,
});

/** The faults of one search body, in the form of pydantic 2 as FastAPI shows it. */
function findFaults(value: Readonly<Record<string, unknown>>): readonly ValidationDetail[] {
  const faults: ValidationDetail[] = [];
  const { query, max_results: maxResults } = value;
  if (query === undefined) faults.push(detail("missing", "Field required", "query"));
  else if (typeof query !== "string") faults.push(detail("string_type", "Input should be a valid string", "query"));
  else if (query.trim() === "") {
    faults.push(detail("string_too_short", "String should have at least 1 character", "query"));
  } else if (!query.isWellFormed()) {
    faults.push(
      detail("string_unicode", "Input should be a valid string, unable to parse raw data as a unicode string", "query"),
    );
  }
  if (maxResults === undefined) return faults;
  if (typeof maxResults !== "number") {
    faults.push(detail("int_type", "Input should be a valid integer", "max_results"));
  } else if (maxResults < 1) {
    // A fraction below 1 has both faults; pydantic names the fraction first.
    faults.push(
      Number.isInteger(maxResults) || maxResults === Number.NEGATIVE_INFINITY
        ? detail("greater_than_equal", "Input should be greater than or equal to 1", "max_results")
        : detail(
            "int_from_float",
            "Input should be a valid integer, got a number with a fractional part",
            "max_results",
          ),
    );
  } else if (!Number.isInteger(maxResults) && maxResults !== Number.POSITIVE_INFINITY) {
    faults.push(
      detail("int_from_float", "Input should be a valid integer, got a number with a fractional part", "max_results"),
    );
  }
  return faults;
}

function parseSearch(body: Uint8Array): ParsedCall {
  if (body.length > MAX_SEARCH_BODY_BYTES) return { ok: false, code: "BODY_TOO_LARGE" };
  if (body.length === 0) return invalid(detail("missing", "Field required"));
  const parsed = parseJson(body);
  if (!parsed.ok) {
    return parsed.reason === "duplicate"
      ? { ok: false, code: "DUPLICATE_KEY" }
      : invalid(detail("json_invalid", "JSON decode error"));
  }
  const { value, members } = parsed;
  if (Array.isArray(value)) return { ok: false, code: "BATCH_NOT_SOLD" };
  if (!isRecord(value)) {
    return invalid(
      detail("model_attributes_type", "Input should be a valid dictionary or object to extract fields from"),
    );
  }
  const faults = findFaults(value);
  if (faults.length > 0) return invalid(...faults);
  const query = members.find((member) => member.key === "query")?.raw ?? '""';
  const wished = value.max_results;
  const limit = typeof wished === "number" ? `,"max_results":${Math.min(wished, MAX_SEARCH_RESULTS)}` : "";
  return {
    ok: true,
    call: {
      rpcType: "rest",
      operation: ROOT,
      verb: "POST",
      path: UPSTREAM_PATH,
      body: Buffer.from(`{"query":${query}${limit}}`),
      id: undefined,
      params: { query: value.query },
    },
  };
}

function parse(service: Service, input: CallInput): ParsedCall {
  if (input.appendedPath !== "") {
    const isSearch = input.appendedPath === UPSTREAM_PATH && service.operations.has(`POST ${UPSTREAM_PATH}`);
    if (!isSearch || input.verb === "GET") return parseChainCall(service, input);
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
