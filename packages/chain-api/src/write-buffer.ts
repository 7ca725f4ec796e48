import type { ServerResponse } from "node:http";
import { WriteBufferBudget } from "@turnpike/base";

/** Maximum bytes of answers of a node that wait for clients to read them. */
const MAX_UNREAD_BYTES = 256 * 1024 * 1024;

/** Smaller answers over HTTP/1.1 are not counted: a connection that reads nothing has one of them. */
export const LARGE_ANSWER_BYTES = 65_536;

/** Error of an answer for which there is no room. Its code is stable. */
export const WRITE_BUFFER_FULL = "OVERLOADED: clients have not read earlier answers yet";

/** Creates the budget that all servers of a node share. */
export function createWriteBuffer(): WriteBufferBudget {
  return new WriteBufferBudget(() => MAX_UNREAD_BYTES);
}

/** Closes the connection of a client that has not read its answer in time. */
export function limitWriteTime(res: ServerResponse, timeoutMs: number): void {
  if (res.writableFinished || res.destroyed) return;
  const timer = setTimeout(() => res.destroy(), timeoutMs);
  res.once("close", () => clearTimeout(timer));
}
