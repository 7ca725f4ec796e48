import { asBuffer } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { isDenied, type PairedSocket } from "@turnpike/relay";
import type { RpcItem } from "../free/jsonrpc.ts";
import { TOO_MANY_AT_ONCE } from "../limits/callers-in-flight.ts";
import type { PairedCalls } from "./paired-calls.ts";
import { codeReply, type Reply, type Session } from "./session.ts";

const SENT: Reply = { body: "", result: "ok" };

/**
 * A call of a client that has a supplier's WebSocket of its own: valid calls of allowed methods are passed on as they
 * came, and answered by the supplier.
 */
export function pairLocal(
  session: Session,
  item: RpcItem,
  isBatch: boolean,
  to: {
    readonly service: Service;
    readonly paired: PairedSocket;
    readonly calls: PairedCalls;
    readonly maxQueuedBytes: number;
  },
): Reply {
  const id = item.kind === "notification" ? undefined : item.id;
  const refuse = (code: "MALFORMED_REQUEST" | "METHOD_NOT_ALLOWED" | "RATE_LIMITED", message?: string): Reply =>
    id === undefined ? { body: "", result: code } : codeReply(id, code, message);
  if (item.kind === "invalid") return refuse("MALFORMED_REQUEST", item.message);
  if (isBatch) return refuse("MALFORMED_REQUEST", "This network's WebSocket takes one call a message.");
  if (isDenied(to.service, item.rpc.method)) return refuse("METHOD_NOT_ALLOWED");
  // A notification has no answer that would end it.
  if (id !== undefined && !to.calls.begin()) return refuse("RATE_LIMITED", TOO_MANY_AT_ONCE);
  const { body } = item.rpc;
  // Before this call, which may itself be larger than what may wait.
  if (to.paired.bufferedBytes > to.maxQueuedBytes) session.drop("supplier");
  else to.paired.send(asBuffer(body).toString("utf8"));
  return SENT;
}
