import { asBuffer, type JsonSpan } from "@turnpike/base";
import type { FamilyId, Operation, Service } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import { replaceSpan } from "../members.ts";
import { isDenied } from "./denied.ts";
import type { ParsedCall } from "./family.ts";
import { sentId } from "./paid-call.ts";
import { matchPath } from "./path-templates.ts";
import { familyOf } from "./registry.ts";
import { formatPath, formatQuery, parsePath } from "./request-path.ts";

/** A valid JSON-RPC 2.0 request object of a free call. Spans are places in `body`. */
export interface FreeRpc {
  readonly method: string;
  readonly params: unknown;
  /** Bytes of the object, as the client sent them. */
  readonly body: Uint8Array;
  /** The same with one character a byte, where that is at hand. */
  readonly bodyText: string | undefined;
  /** Undefined: a notification. */
  readonly id: JsonSpan | undefined;
  /** Raw JSON text of the id. */
  readonly rawId: string | undefined;
  readonly paramsSpan: JsonSpan | undefined;
  /** True when it has no members but `jsonrpc`, `id`, `method` and `params`. */
  readonly isPlain: boolean;
}

/** A free call by path. */
export interface FreePath {
  readonly verb: "GET" | "POST";
  /** Raw, without the query. */
  readonly path: string;
  /** Raw, with its `?`; `""` when there is none. */
  readonly query: string;
  readonly body: Uint8Array;
  /** `x-cosmos-block-height`, as received. */
  readonly blockHeight?: string | undefined;
  /** `accept`, as received. */
  readonly accept?: string | undefined;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** What a call is called in metrics when the catalogue does not declare it. */
export const UNDECLARED = "undeclared";

const RPC_FAMILIES: ReadonlySet<FamilyId> = new Set(["evm", "cosmos", "solana", "near", "sui", "tron", "bitcoin"]);
const PATH_FAMILIES: ReadonlySet<FamilyId> = new Set(["cosmos", "radix", "tron", "beacon", "http", "search"]);

/** Names of CometBFT's RPC; everything else with two families is the EVM's. */
const COMET =
  /^(?:abci_|block|broadcast_|check_tx$|commit$|consensus_|dump_consensus_state$|genesis|header|health$|net_info$|num_unconfirmed_txs$|status$|(?:un)?subscribe|tx$|tx_search$|unconfirmed_txs?$|validators$)/;

function rpcTypeOf(service: Service, method: string, operation: Operation | undefined): RpcType | undefined {
  if (operation !== undefined) return operation.rpcType;
  const { families } = service;
  if (families.length === 0) return "json_rpc";
  if (families.includes("cosmos") && (families.length === 1 || COMET.test(method))) return "comet_bft";
  return families.some((family) => RPC_FAMILIES.has(family)) ? "json_rpc" : undefined;
}

/** The call, and that it only reads, where the catalogue does not say so and the family knows. */
function withKind(service: Service, call: BackendCall, declared: Operation | undefined): BackendCall {
  if (declared !== undefined || service.families.length === 0) return call;
  const family = familyOf(service, call.rpcType);
  const reads = family.traits === undefined ? call.verb === "GET" : family.traits(call)?.kind === "read";
  return reads ? { ...call, isRead: true } : call;
}

/**
 * Makes the call of one JSON-RPC request on the free relay. Every method of the chain is forwarded but those that
 * `isDenied` names and the catalogue does not declare. The client's bytes are sent untouched, unless a member could be
 * read in two ways, the id is one that nodes change, or CometBFT lacks `params`.
 */
export function parseFreeRpc(service: Service, rpc: FreeRpc): ParsedCall {
  const { method, params } = rpc;
  const declared = method.includes(" ") ? undefined : service.operations.get(method);
  const rpcType = rpcTypeOf(service, method, declared);
  const isRpc = rpcType === "json_rpc" || rpcType === "comet_bft";
  if (!isRpc || (declared === undefined && isDenied(service, method))) return { ok: false, code: "METHOD_NOT_ALLOWED" };
  const sent = rpc.rawId === undefined ? undefined : sentId(rpc.rawId);
  const body = bodyOf(rpc, sent, rpcType);
  const call: Mutable<BackendCall> = {
    rpcType,
    // The catalogue's own text, where there is one: texts of bodies are hashed anew by every table that they are looked up in.
    operation: declared?.name ?? UNDECLARED,
    method: declared?.name ?? method,
    verb: "POST",
    path: "",
    body,
    id: sent?.id,
    params: params ?? (rpcType === "comet_bft" ? {} : []),
  };
  if (sent?.clientId !== undefined) call.clientId = sent.clientId;
  else if (body === rpc.body && rpc.id !== undefined) {
    call.idAt = rpc.id;
    if (rpc.bodyText !== undefined) call.bodyText = rpc.bodyText;
  }
  return { ok: true, call: withKind(service, call, declared) };
}

function textOf(bytes: Uint8Array, span: JsonSpan): string {
  return asBuffer(bytes).toString("utf8", span.start, span.end);
}

function bodyOf(rpc: FreeRpc, sent: ReturnType<typeof sentId> | undefined, rpcType: RpcType): Uint8Array {
  const { body, id, paramsSpan } = rpc;
  const lacksParams = rpcType === "comet_bft" && paramsSpan === undefined;
  if (rpc.isPlain && !lacksParams) {
    return id === undefined || sent?.clientId === undefined ? body : replaceSpan(body, id, sent.id);
  }
  const params = paramsSpan === undefined ? (lacksParams ? "{}" : undefined) : textOf(body, paramsSpan);
  const idPart = sent === undefined ? "" : `"id":${sent.id},`;
  const paramsPart = params === undefined ? "" : `,"params":${params}`;
  return Buffer.from(`{"jsonrpc":"2.0",${idPart}"method":${JSON.stringify(rpc.method)}${paramsPart}}`);
}

/** True for a service that has a family with paths, or none at all. */
export function takesPaths(service: Service): boolean {
  return service.families.length === 0 || service.families.some((family) => PATH_FAMILIES.has(family));
}

/** Makes the call of a path on the free relay: REST or CometBFT's GET routes, with its query, as it came. */
export function parseFreePath(service: Service, input: FreePath): ParsedCall {
  const { verb, path, query, body } = input;
  const segments = parsePath(path);
  const formatted = formatQuery(query);
  if (segments === undefined || formatted === undefined) return { ok: false, code: "BAD_PATH" };
  const operation = takesPaths(service) ? matchPath(service, verb, segments) : undefined;
  const isOpen = takesPaths(service) && (operation !== undefined || !isDenied(service, `/${segments.join("/")}`));
  if (!isOpen) return { ok: false, code: "NOT_FOUND" };
  const isComet = verb === "GET" && service.families.includes("cosmos") && segments.length === 1;
  const hasFamily = service.families.length > 0;
  const isDeclaredOnly = hasFamily && service.families.every((family) => family === "http" || family === "search");
  if (operation === undefined && isDeclaredOnly) return { ok: false, code: "NOT_FOUND" };
  const rpcType = operation?.rpcType ?? (isComet ? "comet_bft" : "rest");
  const headers = passedHeaders(service, input);
  const call: BackendCall = {
    rpcType,
    operation: operation?.name ?? UNDECLARED,
    verb,
    path: `${formatPath(segments)}${formatted}`,
    body: verb === "POST" ? body : undefined,
    id: undefined,
    params: undefined,
    ...(headers === undefined ? {} : { headers }),
  };
  return { ok: true, call: withKind(service, call, operation) };
}

/** The consensus layer's binary form (SSZ). */
const SSZ = "application/octet-stream";

function passedHeaders(service: Service, input: FreePath): Readonly<Record<string, string>> | undefined {
  const { blockHeight, accept } = input;
  if (blockHeight !== undefined && service.families.includes("cosmos") && /^[0-9]{1,15}$/.test(blockHeight)) {
    return { "x-cosmos-block-height": blockHeight };
  }
  if (accept === undefined || !service.families.includes("beacon")) return undefined;
  return prefersSsz(accept) ? { accept: `${SSZ}, application/json;q=0.9` } : undefined;
}

/** RFC 9110 §12.5.1: binary is named, and weighs no less than JSON. */
function prefersSsz(accept: string): boolean {
  if (accept.length > 256) return false;
  const weights = new Map(
    accept.split(",").map((part) => {
      const [type = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
      const weight = parameters.find((text) => text.startsWith("q="))?.slice(2);
      return [type, weight === undefined ? 1 : Number(weight)];
    }),
  );
  const binary = weights.get(SSZ) ?? 0;
  return binary > 0 && binary >= (weights.get("application/json") ?? 0);
}

/** True for paths where a service takes JSON-RPC: its root, and on Tron also `/jsonrpc`, as its own nodes do. */
export function isRpcPath(service: Service | undefined, path: string): boolean {
  return path === "" || path === "/" || (path === "/jsonrpc" && service?.families.includes("tron") === true);
}
