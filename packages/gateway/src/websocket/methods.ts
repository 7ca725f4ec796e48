import { bytesToHex0x, isRecord, type Random } from "@turnpike/base";
import { cometTopic, evmTopic, type SubscribeResult } from "@turnpike/relay";
import type { RpcItem } from "../free/jsonrpc.ts";
import { rpcError } from "../http/rpc-answer.ts";
import { codeReply, type Reply } from "./reply.ts";
import type { AfterReply, WebSocketSession } from "./websocket-session.ts";

const ID_BYTES = 16;
const MAX_QUERY_LENGTH = 512;
/** Of the call that subscribes: each event repeats it. */
const MAX_ID_LENGTH = 1_024;

const result = (id: string, raw: string): Reply => ({
  body: `{"jsonrpc":"2.0","id":${id},"result":${raw}}`,
  result: "ok",
});
const refusal = (id: string, code: number, message: string): Reply => ({
  body: rpcError(id, code, message),
  result: "INVALID_PARAMS",
});
const SILENT: Reply = { body: "", result: "ok" };

function refused(id: string, outcome: Exclude<SubscribeResult, { ok: true }>): Reply {
  if ("code" in outcome) return codeReply(id, outcome.code);
  return { body: `{"jsonrpc":"2.0","id":${id},"error":${outcome.error}}`, result: "SUPPLIER_ERROR" };
}

const full = (id: string): Reply =>
  codeReply(id, "RATE_LIMITED", "This connection has as many subscriptions as it may have.");

/** `eth_subscribe` and `eth_unsubscribe`; undefined for another call. A notification has no use for the answer. */
export function evmLocal(
  session: WebSocketSession,
  item: RpcItem,
  afterReply: AfterReply,
  random: Random,
): Promise<Reply> | undefined {
  if (item.kind === "invalid") return undefined;
  const { method, params } = item.rpc;
  if (method !== "eth_subscribe" && method !== "eth_unsubscribe") return undefined;
  if (item.kind === "notification") return Promise.resolve(SILENT);
  const { id } = item;
  if (method === "eth_unsubscribe") {
    const [key] = Array.isArray(params) ? (params as readonly unknown[]) : [];
    if (typeof key !== "string") return Promise.resolve(refusal(id, -32602, "`params` names no subscription."));
    if (session.unsubscribe(key)) return Promise.resolve(result(id, "true"));
    return Promise.resolve({ body: rpcError(id, -32000, "subscription not found"), result: "NOT_FOUND" });
  }
  const topic = evmTopic(params);
  if (topic === undefined) return Promise.resolve(refusal(id, -32602, "`params` names no kind of subscription."));
  if (session.isFull) return Promise.resolve(full(id));
  const key = bytesToHex0x(random.bytes(ID_BYTES));
  return session
    .subscribe(key, topic, afterReply)
    .then((outcome) => (outcome === undefined ? result(id, `"${key}"`) : refused(id, outcome)));
}

/** `subscribe`, `unsubscribe` and `unsubscribe_all` of CometBFT; undefined for another call. */
export function cometLocal(
  session: WebSocketSession,
  item: RpcItem,
  afterReply: AfterReply,
): Promise<Reply> | undefined {
  if (item.kind === "invalid") return undefined;
  const { method, params } = item.rpc;
  if (method !== "subscribe" && method !== "unsubscribe" && method !== "unsubscribe_all") return undefined;
  if (item.kind === "notification") return Promise.resolve(SILENT);
  const { id } = item;
  if (method === "unsubscribe_all") {
    session.unsubscribeAll();
    return Promise.resolve(result(id, "{}"));
  }
  const query: unknown = isRecord(params) ? params.query : Array.isArray(params) ? params[0] : undefined;
  if (typeof query !== "string" || query === "" || query.length > MAX_QUERY_LENGTH) {
    return Promise.resolve(refusal(id, -32602, `\`query\` is not a text of 1 to ${MAX_QUERY_LENGTH} characters.`));
  }
  const topic = cometTopic(query);
  if (method === "unsubscribe") {
    if (session.unsubscribeTopic(topic.key)) return Promise.resolve(result(id, "{}"));
    return Promise.resolve(internal(id, "subscription not found"));
  }
  if (session.hasTopic(topic.key)) return Promise.resolve(internal(id, "already subscribed"));
  if (session.isFull) return Promise.resolve(full(id));
  // Events repeat the id of the call, so the call's id is the subscription's.
  if (id.length > MAX_ID_LENGTH) {
    return Promise.resolve(refusal(id, -32602, `The id of a subscription has at most ${MAX_ID_LENGTH} characters.`));
  }
  if (session.hasSubscription(id)) return Promise.resolve(refusal(id, -32602, "Another subscription has this id."));
  return session
    .subscribe(id, topic, afterReply)
    .then((outcome) => (outcome === undefined ? result(id, "{}") : refused(id, outcome)));
}

/** An error in the form of CometBFT, with the cause in `data`. */
function internal(id: string, data: string): Reply {
  const error = JSON.stringify({ code: -32603, message: "Internal error", data });
  return { body: `{"jsonrpc":"2.0","id":${id},"error":${error}}`, result: "INVALID_PARAMS" };
}
