import { asBuffer, type ErrorCode } from "@turnpike/base";
import { BatchBudget } from "@turnpike/relay";
import type { RpcItem } from "../free/jsonrpc.ts";
import { codeError } from "../http/rpc-answer.ts";

/** The answer to a message; an empty body is not sent. */
export interface Reply {
  readonly body: Uint8Array | string;
  /** `ok` or an error code, for metrics. */
  readonly result: string;
}

/** A reply that is an error of ours. */
export function codeReply(id: string, code: ErrorCode, message?: string): Reply {
  return { body: codeError(id, code, message), result: code };
}

/** The JSON texts of a message's answers as one text, empty without any. */
export function joinTexts(texts: readonly string[], isBatch: boolean): string {
  if (!isBatch) return texts[0] ?? "";
  return texts.length === 0 ? "" : `[${texts.join(",")}]`;
}

/** The replies to a message's items as one. Its result is the first that is not `ok`. */
export function joinReplies(replies: readonly Reply[], isBatch: boolean): Reply {
  const texts = replies.flatMap(({ body }) => (body.length === 0 ? [] : [asText(body)]));
  const bad = replies.find(({ result }) => result !== "ok");
  return { body: joinTexts(texts, isBatch), result: bad?.result ?? "ok" };
}

function asText(body: Uint8Array | string): string {
  return typeof body === "string" ? body : asBuffer(body).toString("utf8");
}

/**
 * Bounds the replies to a batch whose calls are relayed one by one, as the relay bounds a batch that it is given whole: a
 * reply for which there is no room becomes an error.
 */
export function createReplyBound(): (item: RpcItem, reply: Reply) => Reply {
  const budget = new BatchBudget();
  return (item, reply) =>
    item.kind === "notification" || budget.acquire(reply.body.length) ? reply : codeReply(item.id, "ANSWER_TOO_LARGE");
}
