import { type EventLoopQueue, makeInTurns, type RunInTurn } from "@turnpike/chain-node";
import type { RpcJson } from "@turnpike/cometbft";
import { goJsonText } from "./go-json.ts";
import type { RpcCaller } from "./method.ts";

/** Turns of a caller among those of others. */
export function turnsOf(queue: EventLoopQueue, { clientKey }: Pick<RpcCaller, "clientKey">): RunInTurn {
  return (work) => queue.run(work, clientKey);
}

/**
 * A list as JSON text, made in turns; undefined: too much waits.
 * @param ownTurns true: each item costs more than its text, and has a turn of its own
 */
export async function listText<T>(
  items: readonly T[],
  toJson: (item: T) => RpcJson,
  run: RunInTurn,
  ownTurns = false,
): Promise<string | undefined> {
  const make = (item: T): { value: string; bytes: number } => {
    const value = goJsonText(toJson(item));
    return { value, bytes: ownTurns ? Number.POSITIVE_INFINITY : value.length };
  };
  const texts = await makeInTurns(items, make, run);
  return texts === undefined ? undefined : `[${texts.join(",")}]`;
}
