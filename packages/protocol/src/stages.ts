import type { RequestId, ServiceId, SettlementId, Span } from "@turnpike/base";

/**
 * The order of a request is in these types: the edge makes a {@link ParsedRequest}; payment makes a {@link PaidRequest}
 * of it (or the free listener a {@link FreeRequest}); relay takes one of these and makes a {@link Relayed}; only a settled or
 * free `Relayed` becomes a response. `tools/layers.test.ts` names the callers of each `mint…` function.
 */
declare const stage: unique symbol;

/** How a back-end is spoken to. */
export type RpcType = "json_rpc" | "comet_bft" | "rest" | "websocket" | "grpc";

/** One call to a back-end, complete: nothing has to be added before it is sent. */
export interface BackendCall {
  readonly rpcType: RpcType;
  /**
   * What is called, from a fixed set, for allow-lists, schemas and metrics: a method name (`eth_call`), or verb and
   * path template (`GET /cosmos/bank/v1beta1/balances/{address}`).
   */
  readonly operation: string;
  /** JSON-RPC: name of the method as the client sent it, also where the catalogue does not declare it. Never a label. */
  readonly method?: string;
  readonly verb: "GET" | "POST";
  /** Path and query that follow the back-end's base URL; empty for its root. */
  readonly path: string;
  /** The JSON body to send; undefined on GET. For JSON-RPC: complete with `jsonrpc` and `id`. */
  readonly body: Uint8Array | undefined;
  /** JSON-RPC: `body` as a text of one character a byte, where that is at hand. */
  readonly bodyText?: string;
  /** JSON-RPC: the id's raw JSON text as in `body`. The answer must carry the same. */
  readonly id: string | undefined;
  /** JSON-RPC: where the id stands in `body`, where that is known. */
  readonly idAt?: { readonly start: number; readonly end: number };
  /** JSON-RPC: raw JSON text of the id that the client sent, when another had to be sent on; relay puts it into the answer. */
  readonly clientId?: string;
  /** JSON-RPC: parsed `params`, for stickiness and schemas. */
  readonly params: unknown;
  /** Of a call that the catalogue does not declare: true when sending it twice does no harm. Absent: it may write. */
  readonly isRead?: boolean;
  /** Further headers that the answer depends on, in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request that the edge has matched, bounded and validated. */
export interface ParsedRequest {
  readonly [stage]: "parsed";
  readonly requestId: RequestId;
  readonly serviceId: ServiceId;
  readonly call: BackendCall;
  /** Whose request it is, as text: what belongs to one client, such as a filter, is bound to it. */
  readonly client: string;
  /** SHA-256 over verb, route, appended path with query, and body bytes as received: what a payment is bound to. */
  readonly requestHash: Uint8Array;
  /** The request's span, where it is traced: attempts at suppliers are its children. */
  readonly span?: Span;
}

/** A parsed request whose payment is verified and claimed. */
export interface PaidRequest {
  readonly [stage]: "paid";
  readonly request: ParsedRequest;
  readonly settlementId: SettlementId;
  /** Monotonic milliseconds by which the answer must be here, so that it can still be settled. */
  readonly deadlineMs: number;
}

/** A parsed request of the free relay, within its limits. */
export interface FreeRequest {
  readonly [stage]: "free";
  readonly request: ParsedRequest;
  /** True when a large answer may be passed on while it arrives. */
  readonly mayStream?: boolean;
  /** Monotonic milliseconds by which the answer must be here. */
  readonly deadlineMs: number;
}

/** `passed`: validated against its schema; `undeclared`: the operation has none; `unchecked`: it was not validated. */
export type SchemaCheck = "passed" | "undeclared" | "unchecked";

/** An answer of a supplier that was checked. */
export interface Relayed {
  readonly [stage]: "relayed";
  /** Distinguishes it from a failure. */
  readonly ok: true;
  readonly request: PaidRequest | FreeRequest;
  /** The back-end's HTTP status. */
  readonly status: number;
  /** The back-end's body, untouched. Empty when there is a `stream`. */
  readonly body: Uint8Array;
  /** A large body, passed on while it arrives; only where the request says that it may be. Rejects when it breaks off. */
  readonly stream?: AsyncIterable<Uint8Array>;
  readonly contentType: string;
  /** `Eth-Consensus-Version`: of which fork a binary answer of the consensus layer is. */
  readonly consensusVersion?: string;
  readonly schemaCheck: SchemaCheck;
  /** Which operator answered: host only, for logs and metrics. */
  readonly operator: string;
}

/** Makes a {@link ParsedRequest}. Only the gateway's edges call it. */
export function mintParsed(fields: Omit<ParsedRequest, typeof stage>): ParsedRequest {
  return fields as ParsedRequest;
}

/** Makes a {@link PaidRequest}. Only payment calls it, after the claim is durable. */
export function mintPaid(fields: Omit<PaidRequest, typeof stage>): PaidRequest {
  return fields as PaidRequest;
}

/** Makes a {@link FreeRequest}. Only the free listener calls it, after its limits. */
export function mintFree(fields: Omit<FreeRequest, typeof stage>): FreeRequest {
  return fields as FreeRequest;
}

/** Makes a {@link Relayed}. Only relay calls it, after the answer was checked. */
export function mintRelayed(fields: Omit<Relayed, typeof stage>): Relayed {
  return fields as Relayed;
}
