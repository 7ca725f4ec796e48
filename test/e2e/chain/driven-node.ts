import { eventually } from "@turnpike/testkit";
import type { BlockFeed } from "../../support/chain/block-feed.ts";
import { startEmbedded } from "../../support/chain/nodes.ts";
import type { LifeNode } from "./life.ts";

/**
 * Starts an embedded node of a new chain that makes a block while the test waits for one: windows of blocks are as long
 * on a busy machine as on another.
 */
export async function startDriven(): Promise<LifeNode> {
  const { node, ...served } = await startEmbedded();
  let making: Promise<void> | undefined;
  /** One block more, which the feed has heard of and whose state was asked for; those who ask meanwhile share it. */
  const step = (feed: BlockFeed, settled: () => Promise<void>): Promise<void> => {
    making ??= node
      .produceBlock()
      .then(() => {
        const made = node.blocks.latestHeightBlocks();
        return eventually(`block ${made}`, () => (feed.blocks.at(-1)?.heightBlocks ?? 0n) >= made);
      })
      .then(() => settled())
      .finally(() => {
        making = undefined;
      });
    return making;
  };
  /** Makes blocks until what is waited for is there. */
  const until = async <T>(feed: BlockFeed, settled: () => Promise<void>, wanted: Promise<T>): Promise<T> => {
    let isThere = false;
    const seen = wanted.finally(() => {
      isThere = true;
    });
    // Rejects with the wait below.
    seen.catch(() => undefined);
    await new Promise(setImmediate);
    while (!isThere) await step(feed, settled);
    return seen;
  };
  return {
    ...served,
    async drive(feed, settled) {
      const reach = feed.reach.bind(feed);
      const tx = feed.tx.bind(feed);
      const event = feed.event.bind(feed);
      feed.reach = (heightBlocks) => until(feed, settled, reach(heightBlocks));
      feed.tx = (hash) => until(feed, settled, tx(hash));
      feed.event = (type, fits) => until(feed, settled, event(type, fits));
      // A subscription is not confirmed to the feed: it stands when a block is heard of.
      await eventually("a block is heard of", async () => {
        await node.produceBlock();
        return feed.blocks.length > 0;
      });
    },
  };
}
