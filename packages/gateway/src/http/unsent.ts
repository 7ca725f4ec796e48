import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { BodyBudget } from "./body.ts";

/** Bytes of a connection that are written and not sent yet. */
interface Held {
  bytes: number;
}

const connections = new WeakMap<Socket, Held>();

/**
 * Takes the bytes of an answer that is about to be written, until it is sent or its client has left. False: there are none
 * left. `isDue`: it must be written whatever there is.
 */
export function holdUnsent(budget: BodyBudget, res: ServerResponse, bytes: number, isDue: boolean): boolean {
  const { socket } = res.req;
  // Nobody would tell that they can be given back.
  if (res.destroyed || socket.destroyed) return true;
  if (isDue) budget.hold(bytes);
  else if (!budget.take(bytes)) return false;
  const held = heldBy(socket, budget);
  held.bytes += bytes;
  res.once("close", () => {
    const rest = Math.min(bytes, held.bytes);
    held.bytes -= rest;
    budget.give(rest);
  });
  return true;
}

/** What a connection holds. A response that waits behind another one is not told of its end, so that is watched too. */
function heldBy(socket: Socket, budget: BodyBudget): Held {
  const known = connections.get(socket);
  if (known !== undefined) return known;
  const held: Held = { bytes: 0 };
  connections.set(socket, held);
  socket.once("close", () => {
    budget.give(held.bytes);
    held.bytes = 0;
  });
  return held;
}
