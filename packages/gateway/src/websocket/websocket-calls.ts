import type { RequestId, ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { parseFreeRpc, type Relay, type Subscriptions } from "@turnpike/relay";
import type { RpcItem } from "../free/jsonrpc.ts";
import type { RelayCalls } from "../free/relay-calls.ts";
import { rpcError } from "../http/rpc-answer.ts";
import { codeReply, createReplyBound, joinReplies, type Reply } from "./reply.ts";

interface WebSocketCallsModules {
  /** Over HTTP, as for requests. */
  readonly calls: Pick<RelayCalls, "single" | "batch">;
  readonly relay: Pick<Relay, "missing">;
  readonly subscriptions: Pick<Subscriptions, "call">;
  readonly requestId: () => RequestId;
}

/** The WebSocket that calls came over. */
interface CallingSocket {
  readonly service: Service;
  readonly dialect: "evm" | "comet";
  /** The caller, as `callerOf` makes it. */
  readonly client: string;
}

const isFilterCall = (method: string): boolean => /^eth_.*filter/i.test(method);
const NO_FILTERS = "This network has WebSockets only, and no filters there: use `eth_subscribe`.";
const SILENT: Reply = { body: "", result: "METHOD_NOT_ALLOWED" };

/**
 * Relays calls of clients' WebSockets that are no subscriptions: over HTTP as other free calls, or over the suppliers'
 * WebSockets where they have nothing else.
 */
export class WebSocketCalls {
  readonly #modules: WebSocketCallsModules;

  constructor(modules: WebSocketCallsModules) {
    this.#modules = modules;
  }

  /** Relays the calls of one message. */
  async relay(socket: CallingSocket, items: readonly RpcItem[], isBatch: boolean): Promise<Reply> {
    const { calls, requestId } = this.#modules;
    const { service, client } = socket;
    const [first] = items;
    if (this.#hasHttp(service.id)) {
      const from = { requestId: requestId(), client };
      const single = isBatch || first === undefined ? undefined : calls.single(from, service, first);
      return (await single) ?? calls.batch(from, service, items);
    }
    if (!isBatch && first !== undefined) return this.#overWebSocket(socket, first);
    const bound = createReplyBound();
    const replies = await Promise.all(items.map(async (item) => bound(item, await this.#overWebSocket(socket, item))));
    return joinReplies(replies, true);
  }

  #hasHttp(id: ServiceId): boolean {
    return this.#modules.relay.missing(id) !== undefined;
  }

  async #overWebSocket({ service, dialect }: CallingSocket, item: RpcItem): Promise<Reply> {
    if (item.kind === "invalid") return { body: rpcError(item.id, -32600, item.message), result: "MALFORMED_REQUEST" };
    const id = item.kind === "call" ? item.id : "null";
    const parsed = parseFreeRpc(service, item.rpc);
    if (!parsed.ok) return item.kind === "call" ? codeReply(id, parsed.code) : { body: "", result: parsed.code };
    const { rpc } = item;
    // All clients share one WebSocket there, so that a filter would be everybody's.
    if (isFilterCall(rpc.method)) {
      return item.kind === "call" ? codeReply(id, "METHOD_NOT_ALLOWED", NO_FILTERS) : SILENT;
    }
    const span = rpc.paramsSpan;
    const empty = dialect === "comet" ? "{}" : "[]";
    const params = span === undefined ? empty : Buffer.from(rpc.body.subarray(span.start, span.end)).toString("utf8");
    const outcome = await this.#modules.subscriptions.call(service.id, dialect, rpc.method, params);
    if (item.kind === "notification") return { body: "", result: "ok" };
    if (outcome.kind === "lost") return codeReply(id, "SUPPLIERS_UNREACHABLE");
    if (outcome.kind === "timeout") return codeReply(id, "DEADLINE_EXCEEDED");
    return { body: `{"jsonrpc":"2.0","id":${id},"${outcome.kind}":${outcome.raw}}`, result: "ok" };
  }
}
