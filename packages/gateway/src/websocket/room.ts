import { BatchBudget } from "@turnpike/relay";
import type { RpcItem } from "../free/jsonrpc.ts";
import { codeError } from "../http/rpc-answer.ts";
import type { Reply } from "./session.ts";

/**
 * Bounds the answers of a batch whose calls are relayed one by one, as the relay bounds one that it is given whole: what
 * there is no room for becomes an error.
 */
export function createRoom(): (item: RpcItem, reply: Reply) => Reply {
  const budget = new BatchBudget();
  return (item, reply) =>
    item.kind === "notification" || budget.acquire(reply.body.length)
      ? reply
      : { body: codeError(item.id, "ANSWER_TOO_LARGE"), result: "ANSWER_TOO_LARGE" };
}
