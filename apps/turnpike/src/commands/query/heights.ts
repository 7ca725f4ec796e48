import type { ChainClient } from "@turnpike/chain-client";
import { shared } from "@turnpike/proto";

const GONE = /failed to load state at height/;
const FUTURE = /cannot query with height in the future/;
/** The advice of an error must not keep anybody waiting. */
const SEARCH_MS = 3_000;

type Client = Pick<ChainClient, "query" | "status">;

/** The oldest state that the node keeps, between one that is gone and one that is there. Older ones go first. */
async function oldestKept(client: Client, gone: bigint, kept: bigint, signal: AbortSignal): Promise<bigint> {
  let [below, found] = [gone, kept];
  while (found - below > 1n) {
    const heightBlocks = (below + found) / 2n;
    const answer = await client.query(shared.Query.method.params, {}, { heightBlocks, signal });
    if (!answer.ok && GONE.test(answer.text)) below = heightBlocks;
    else found = heightBlocks;
  }
  return found;
}

/**
 * Which heights can be asked for, when a query was refused for its height; undefined when it was refused for something else,
 * or the node does not say where it stands.
 */
export async function heightAdvice(
  { heightBlocks, text }: { readonly heightBlocks: bigint; readonly text: string },
  { client }: { readonly client: Client },
): Promise<string | undefined> {
  const isGone = GONE.test(text);
  if (!isGone && !FUTURE.test(text)) return undefined;
  const signal = AbortSignal.timeout(SEARCH_MS);
  const newest = await client.status(signal).then(
    ({ latestHeightBlocks }) => latestHeightBlocks,
    () => undefined,
  );
  if (newest === undefined) return undefined;
  if (!isGone) return `Ask for a height up to ${newest}, which is the newest.`;
  const oldest =
    heightBlocks < newest ? await oldestKept(client, heightBlocks, newest, signal).catch(() => undefined) : undefined;
  return oldest === undefined
    ? `Ask for a height up to ${newest}, which is the newest, that the node keeps.`
    : `Ask for a height from ${oldest} to ${newest}: this node keeps no older states.`;
}
