import { MAX_BATCH_ANSWER_BYTES, SMALL_ANSWER_BYTES } from "@turnpike/relay";
import { codeError } from "../free/answers.ts";
import type { RpcItem } from "../free/jsonrpc.ts";
import type { Reply } from "./session.ts";

/**
 * Bounds the answers of a batch whose calls are relayed one by one, as the relay bounds one that it is given whole: what
 * there is no room for becomes an error.
 */
export function createRoom(): (item: RpcItem, reply: Reply) => Reply {
  let used = 0;
  return (item, reply) => {
    const { length } = reply.body;
    if (length <= SMALL_ANSWER_BYTES || item.kind === "notification") return reply;
    // A single answer that is larger has room by itself.
    if (used > 0 && used + length > MAX_BATCH_ANSWER_BYTES) {
      return { body: codeError(item.id, "ANSWER_TOO_LARGE"), result: "ANSWER_TOO_LARGE" };
    }
    used += length;
    return reply;
  };
}
