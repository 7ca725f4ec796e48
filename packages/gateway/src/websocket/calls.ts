import type { RequestId, ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { parseFreeRpc, type Relay, type Subscriptions } from "@turnpike/relay";
import { type RpcItem, rpcError } from "../free/jsonrpc.ts";
import type { Answer } from "../http/answer.ts";
import { createRoom } from "./room.ts";
import { codeReply, type Reply } from "./session.ts";

/** Relays over HTTP, as the free door does. */
export interface HttpCalls {
  single(from: { readonly requestId: RequestId }, service: Service, item: RpcItem): Promise<Answer>;
  batch(from: { readonly requestId: RequestId }, service: Service, items: readonly RpcItem[]): Promise<Answer>;
}

/** What {@link createSocketCalls} works with. */
export interface SocketCallsModules {
  readonly calls: HttpCalls;
  readonly relay: Pick<Relay, "missing">;
  readonly subscriptions: Pick<Subscriptions, "call">;
  readonly requestId: () => RequestId;
}

/** Calls over a client's WebSocket that are no subscriptions. */
export type SocketCalls = (
  service: Service,
  dialect: "evm" | "comet",
  items: readonly RpcItem[],
  isBatch: boolean,
) => Promise<Reply>;

/** Calls go the way of the HTTP door; where the suppliers have nothing but WebSockets, over those. */
export function createSocketCalls(modules: SocketCallsModules): SocketCalls {
  const { calls, relay, subscriptions, requestId } = modules;
  const hasHttp = (id: ServiceId): boolean => relay.missing(id) !== undefined;

  const one = async (service: Service, dialect: "evm" | "comet", item: RpcItem): Promise<Reply> => {
    if (item.kind === "invalid") return { body: rpcError(item.id, -32600, item.message), result: "MALFORMED_REQUEST" };
    const id = item.kind === "call" ? item.id : "null";
    const parsed = parseFreeRpc(service, item.rpc);
    if (!parsed.ok) return item.kind === "call" ? codeReply(id, parsed.code) : { body: "", result: parsed.code };
    const { rpc } = item;
    const span = rpc.paramsSpan;
    const empty = dialect === "comet" ? "{}" : "[]";
    const params = span === undefined ? empty : Buffer.from(rpc.body.subarray(span.start, span.end)).toString("utf8");
    const outcome = await subscriptions.call(service.id, dialect, rpc.method, params);
    if (item.kind === "notification") return { body: "", result: "ok" };
    if (outcome.kind === "lost") return codeReply(id, "SUPPLIERS_UNREACHABLE");
    if (outcome.kind === "timeout") return codeReply(id, "DEADLINE_EXCEEDED");
    return { body: `{"jsonrpc":"2.0","id":${id},"${outcome.kind}":${outcome.raw}}`, result: "ok" };
  };

  return async (service, dialect, items, isBatch) => {
    const [first] = items;
    if (hasHttp(service.id)) {
      const from = { requestId: requestId() };
      const single = isBatch || first === undefined ? undefined : calls.single(from, service, first);
      return (await single) ?? calls.batch(from, service, items);
    }
    if (!isBatch && first !== undefined) return one(service, dialect, first);
    const fit = createRoom();
    const replies = await Promise.all(items.map(async (item) => fit(item, await one(service, dialect, item))));
    const texts = replies.map(({ body }) => body).filter((body) => body.length > 0);
    const bad = replies.find(({ result }) => result !== "ok");
    return { body: texts.length === 0 ? "" : `[${texts.join(",")}]`, result: bad?.result ?? "ok" };
  };
}
