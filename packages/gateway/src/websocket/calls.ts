import type { MaybePromise, RequestId, ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { parseFreeRpc, type Relay, type Subscriptions } from "@turnpike/relay";
import type { RpcItem } from "../free/jsonrpc.ts";
import type { CallOrigin } from "../free/relay-calls.ts";
import type { Answer } from "../http/answer.ts";
import { rpcError } from "../http/rpc-answer.ts";
import { createRoom } from "./room.ts";
import { codeReply, type Reply } from "./session.ts";

/** Relays over HTTP, as the free door does. */
export interface HttpCalls {
  single(from: CallOrigin, service: Service, item: RpcItem): MaybePromise<Answer>;
  batch(from: CallOrigin, service: Service, items: readonly RpcItem[]): Promise<Answer>;
}

/** What {@link createSocketCalls} works with. */
export interface SocketCallsModules {
  readonly calls: HttpCalls;
  readonly relay: Pick<Relay, "missing">;
  readonly subscriptions: Pick<Subscriptions, "call">;
  readonly requestId: () => RequestId;
}

/** A client's WebSocket, as its calls need it. */
export interface CallingSocket {
  readonly service: Service;
  readonly dialect: "evm" | "comet";
  /** Whose it is; see `callerOf`. */
  readonly client: string;
}

/** Calls over a client's WebSocket that are no subscriptions. */
export type SocketCalls = (socket: CallingSocket, items: readonly RpcItem[], isBatch: boolean) => Promise<Reply>;

const isFilterCall = (method: string): boolean => /^eth_.*filter/i.test(method);
const NO_FILTERS = "This network has WebSockets only, and no filters there: use `eth_subscribe`.";
const SILENT: Reply = { body: "", result: "METHOD_NOT_ALLOWED" };

/** Calls go the way of the HTTP door; where the suppliers have nothing but WebSockets, over those. */
export function createSocketCalls(modules: SocketCallsModules): SocketCalls {
  const { calls, relay, subscriptions, requestId } = modules;
  const hasHttp = (id: ServiceId): boolean => relay.missing(id) !== undefined;

  const one = async ({ service, dialect }: CallingSocket, item: RpcItem): Promise<Reply> => {
    if (item.kind === "invalid") return { body: rpcError(item.id, -32600, item.message), result: "MALFORMED_REQUEST" };
    const id = item.kind === "call" ? item.id : "null";
    const parsed = parseFreeRpc(service, item.rpc);
    if (!parsed.ok) return item.kind === "call" ? codeReply(id, parsed.code) : { body: "", result: parsed.code };
    const { rpc } = item;
    // All clients share one WebSocket there, so that a filter would be everybody's.
    if (isFilterCall(rpc.method))
      return item.kind === "call" ? codeReply(id, "METHOD_NOT_ALLOWED", NO_FILTERS) : SILENT;
    const span = rpc.paramsSpan;
    const empty = dialect === "comet" ? "{}" : "[]";
    const params = span === undefined ? empty : Buffer.from(rpc.body.subarray(span.start, span.end)).toString("utf8");
    const outcome = await subscriptions.call(service.id, dialect, rpc.method, params);
    if (item.kind === "notification") return { body: "", result: "ok" };
    if (outcome.kind === "lost") return codeReply(id, "SUPPLIERS_UNREACHABLE");
    if (outcome.kind === "timeout") return codeReply(id, "DEADLINE_EXCEEDED");
    return { body: `{"jsonrpc":"2.0","id":${id},"${outcome.kind}":${outcome.raw}}`, result: "ok" };
  };

  return async (socket, items, isBatch) => {
    const { service, client } = socket;
    const [first] = items;
    if (hasHttp(service.id)) {
      const from = { requestId: requestId(), client };
      const single = isBatch || first === undefined ? undefined : calls.single(from, service, first);
      return (await single) ?? calls.batch(from, service, items);
    }
    if (!isBatch && first !== undefined) return one(socket, first);
    const fit = createRoom();
    const replies = await Promise.all(items.map(async (item) => fit(item, await one(socket, item))));
    const texts = replies.map(({ body }) => body).filter((body) => body.length > 0);
    const bad = replies.find(({ result }) => result !== "ok");
    return { body: texts.length === 0 ? "" : `[${texts.join(",")}]`, result: bad?.result ?? "ok" };
  };
}
