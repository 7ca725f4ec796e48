import { type EventLoopQueue, makeInSteps, type RunStep } from "@turnpike/chain-node";
import type { RpcJson } from "@turnpike/cometbft";
import { goJsonText } from "./go-json.ts";
import type { RpcCaller } from "./method.ts";

/** Runs steps for a caller, among those of other callers. */
export function stepsOf(queue: EventLoopQueue, { clientKey }: Pick<RpcCaller, "clientKey">): RunStep {
  return (work) => queue.run(work, clientKey);
}

/**
 * A list as JSON text, made in steps; undefined: too much waits.
 * @param isSeparate true: each item costs more than its text, and is a step by itself
 */
export async function listText<T>(
  items: readonly T[],
  toJson: (item: T) => RpcJson,
  run: RunStep,
  isSeparate = false,
): Promise<string | undefined> {
  const make = (item: T): { value: string; bytes: number } => {
    const value = goJsonText(toJson(item));
    return { value, bytes: isSeparate ? Number.POSITIVE_INFINITY : value.length };
  };
  const texts = await makeInSteps(items, make, run);
  return texts === undefined ? undefined : `[${texts.join(",")}]`;
}
