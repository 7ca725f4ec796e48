import type { ErrorCode } from "@turnpike/base";
import type { FamilyId, Service } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import type { Blame } from "../types.ts";
import type { ErrorText } from "./error-text.ts";
import type { MethodTraits } from "./method-traits.ts";

/** What a paid route received. */
export interface CallInput {
  readonly verb: "GET" | "POST";
  /** Raw, as received after `/v1/{id}` and without the query; `""` when there is none. */
  readonly appendedPath: string;
  /** Raw, with its `?`; `""` when there is none. */
  readonly query: string;
  readonly body: Uint8Array;
}

/** One entry of the search route's 422. */
export interface ValidationDetail {
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  readonly type: string;
}

/** The request is refused; nothing is claimed. */
export interface CallRefusal {
  readonly ok: false;
  readonly code: ErrorCode;
  /** Replaces the code's sentence; safe to show. */
  readonly message?: string;
  /** With VALIDATION_FAILED. */
  readonly detail?: readonly ValidationDetail[];
}

/** A complete call, or why there is none. */
export type ParsedCall = { readonly ok: true; readonly call: BackendCall } | CallRefusal;

/** The `error` of a JSON-RPC answer. */
export interface RpcError {
  readonly code: number;
  readonly message: ErrorText;
  /** Undefined where it is not a string. */
  readonly data: ErrorText | undefined;
  /** `cause.name`, where a node states one. */
  readonly cause: ErrorText | undefined;
}

/**
 * Whose an error is. `answer`: fixed by the request and the chain's state, so it is the answer. Otherwise the call
 * failed and the next supplier is asked: `client` (this request is too much for that supplier) and `chain` (another
 * supplier may know more) do not count against the supplier, `supplier` does.
 */
export type ErrorJudgement = "answer" | { readonly blame: Blame; readonly reason: FailureReason };

/** Why an attempt failed: a small fixed set, for logs and metrics. */
export type FailureReason =
  | "empty"
  | "not_json"
  | "no_jsonrpc"
  | "wrong_id"
  | "both_or_neither"
  | "bad_error"
  | "schema"
  | "other_request"
  | "http_status"
  | "rate_limited"
  | "refused"
  | "unsupported"
  | "too_much"
  | "state_unavailable"
  | "error"
  | "too_large"
  | "behind"
  | "timeout"
  | "connection"
  | "wrong_chain"
  | "overloaded"
  | "aborted"
  | "over_limit"
  | "bad_signature";

/** A block that distinguishes one chain's history from another's. */
export interface SeenBlock {
  readonly heightBlocks: number;
  readonly hash: string;
  readonly parentHash: string | undefined;
}

/** What a probe learned. `wrong_chain`: this is a supplier of another chain. */
export type ProbeReading =
  | {
      readonly ok: true;
      readonly heightBlocks?: number;
      /** The newest block, where the family has hashes. */
      readonly head?: SeenBlock;
      /** The newest block that cannot be undone. */
      readonly finalBlocks?: number;
    }
  | { readonly ok: false; readonly reason: "wrong_chain" | "bad_answer" };

/** One native question of a family that shows whether a supplier lives. */
export interface ProbeStep {
  readonly call: BackendCall;
  /** Reads `result` of a JSON-RPC answer, or the body of a plain HTTP answer. */
  read(result: unknown): ProbeReading;
  /** Asked when this one gets no good answer. */
  readonly instead?: ProbeStep;
  /** A failure says nothing about the supplier: it is as if it had not been asked. */
  readonly isOptional?: boolean;
  /** Asked in every so many-th round of probes, the first among them; 1 by default. */
  readonly every?: number;
}

/** How a supplier of a service is probed. */
export interface Probe {
  readonly steps: readonly ProbeStep[];
  /** No call may be sent to a supplier before its first probe has passed. */
  readonly isRequired: boolean;
}

/** How one family of services is spoken to. */
export interface Family {
  readonly id: FamilyId | "unknown";
  /** Makes the complete call of a paid request, or refuses it. */
  parse(service: Service, input: CallInput): ParsedCall;
  /** Judges the `error` of a JSON-RPC answer. */
  judgeRpcError(error: RpcError, call: BackendCall): ErrorJudgement;
  /** Judges an answer of a plain HTTP call whose status is not 2xx; `body` is its parsed JSON. */
  judgeHttpError(status: number, body: unknown, call: BackendCall): ErrorJudgement;
  /** Judges the body of a 2xx answer where a family states errors there; undefined: it is no error. */
  judgeHttpBody?(body: unknown): ErrorJudgement | undefined;
  /** A JSON-RPC errors may come with HTTP status 500. */
  readonly errorsOverHttp500: boolean;
  /** Answers of JSON-RPC 1 style (`error: null`, no `jsonrpc`) are made into JSON-RPC 2.0. */
  readonly isLegacyRpc: boolean;
  /** What it knows of a method, or of a call by path; undefined when it knows nothing. */
  traits?(call: BackendCall): MethodTraits | undefined;
  /** Undefined: there is nothing to ask; calls alone show health. */
  probe(service: Service, rpcType: RpcType): Probe | undefined;
}

/** The supplier is to blame. */
export const supplierFault = (reason: FailureReason): ErrorJudgement => ({ blame: "supplier", reason });
/** Another supplier may know more; not held against this one. */
export const chainFault = (reason: FailureReason): ErrorJudgement => ({ blame: "chain", reason });
/** Too much for this supplier; not held against it. */
export const tooMuch: ErrorJudgement = { blame: "client", reason: "too_much" };

/** A JSON-RPC call of ours, for probes. */
export function rpcProbeCall(method: string, params: unknown, rpcType: RpcType = "json_rpc"): BackendCall {
  return {
    rpcType,
    operation: method,
    method,
    verb: "POST",
    path: "",
    body: Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })),
    id: "1",
    params,
  };
}

/** A plain HTTP call of ours, for probes. */
export function httpProbeCall(verb: "GET" | "POST", path: string, rpcType: RpcType = "rest"): BackendCall {
  return {
    rpcType,
    operation: `${verb} ${path}`,
    verb,
    path,
    body: verb === "POST" ? Buffer.from("{}") : undefined,
    id: undefined,
    params: undefined,
  };
}

/** Reads a block height that is a JSON integer, decimal text or hex quantity; undefined when it is none of these. */
export function readHeight(value: unknown): number | undefined {
  if (typeof value === "string" && !/^(?:0x[0-9a-fA-F]{1,13}|[0-9]{1,15})$/.test(value)) return undefined;
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  const height = Number(value);
  return Number.isSafeInteger(height) && height >= 0 ? height : undefined;
}

/**
 * A probe that asks for a height at one place of the answer. `finalityBlocks`: so far behind it is the newest block that
 * cannot be undone; undefined: that is not known.
 */
export function heightProbe(
  call: BackendCall,
  at: (result: unknown) => unknown,
  finalityBlocks?: number,
  ...further: readonly ProbeStep[]
): Probe {
  return {
    isRequired: false,
    steps: [
      {
        call,
        read: (result) => {
          const heightBlocks = readHeight(at(result));
          if (heightBlocks === undefined) return { ok: false, reason: "bad_answer" };
          if (finalityBlocks === undefined) return { ok: true, heightBlocks };
          return { ok: true, heightBlocks, finalBlocks: Math.max(0, heightBlocks - finalityBlocks) };
        },
      },
      ...further,
    ],
  };
}

/** Finality moves slowly, and a supplier that does not state it should not be asked again and again. */
const FINAL_EVERY = 4;

/** Asks for the newest block that cannot be undone, where suppliers state it. */
export function finalStep(call: BackendCall, at: (result: unknown) => unknown): ProbeStep {
  return {
    call,
    isOptional: true,
    every: FINAL_EVERY,
    read: (result) => {
      const finalBlocks = readHeight(at(result));
      return finalBlocks === undefined ? { ok: false, reason: "bad_answer" } : { ok: true, finalBlocks };
    },
  };
}

/** The value at a path of member names; undefined when it is not there. */
export function memberAt(value: unknown, ...names: readonly string[]): unknown {
  let current = value;
  for (const name of names) {
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, name)) return undefined;
    current = (current as Readonly<Record<string, unknown>>)[name];
  }
  return current;
}

/** HTTP errors of services that promise nothing about them: never an answer. */
export function judgeHttpStatus(status: number): ErrorJudgement {
  if (status === 429) return supplierFault("rate_limited");
  if (status === 401 || status === 402 || status === 403 || status === 407) return supplierFault("refused");
  return supplierFault("http_status");
}
