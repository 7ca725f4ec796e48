import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { ChainClient } from "@turnpike/chain-client";
import { openChainStore } from "@turnpike/chain-store";
import type { Random } from "../../../soak/random.ts";
import { assertReplayed, readDecided, replay } from "../../../support/chain/replay.ts";
import type { NodeHome } from "./node-home.ts";
import { askOld, tellBlock } from "./node-load.ts";
import { addPlace, type ToldTx, type Witness } from "./node-witness.ts";

const PAGE_BLOCKS = 20n;
const RECENT_PAGES = 2;
const OLD_PAGES = 2;
const CHECKED_TX_BLOCKS = 8;
const OLD_ANSWERS = 4;

export const hashOf = (tx: Uint8Array): string => createHash("sha256").update(tx).digest("hex").toUpperCase();

/** What the checks of a restarted node need. */
export interface Checked {
  readonly home: NodeHome;
  readonly client: ChainClient;
  readonly witness: Witness;
  readonly random: Random;
  /** Fewest states that every start so far was told to keep; 0: all. */
  readonly keptStatesBlocks: number;
}

/**
 * Compares a node that has just started with what was told before it died: the newest blocks, some old ones, and the
 * transactions that were told of since the last time.
 */
export async function checkTold(checked: Checked): Promise<void> {
  const { client, witness, random } = checked;
  witness.check();
  const newest = witness.newestBlocks;
  if (newest === 0n) return;
  const { latestHeightBlocks } = await client.status();
  assert.ok(
    latestHeightBlocks >= newest,
    `block ${newest} was told of and is lost: the newest is ${latestHeightBlocks}`,
  );
  const pages = Array.from({ length: RECENT_PAGES }, (_, page) => newest - BigInt(page) * PAGE_BLOCKS);
  for (let n = 0; n < OLD_PAGES; n++) pages.push(BigInt(random.whole(1, Number(newest))));
  for (const to of pages) {
    if (to < 1n) continue;
    const from = to - PAGE_BLOCKS + 1n < 1n ? 1n : to - PAGE_BLOCKS + 1n;
    const heights = await tellBlock(client, witness, from, to);
    assert.equal(heights.length, Number(to - from) + 1, `blocks ${from} to ${to}`);
  }
  await checkTxs(checked, witness.newTxs.splice(0));
  await checkOldStates(checked);
}

async function checkOldStates({ home, client, witness, random, keptStatesBlocks }: Checked): Promise<void> {
  const heights = [...witness.answers.keys()];
  for (let n = 0; n < OLD_ANSWERS && heights.length > 0; n++) {
    const at = heights[random.whole(0, heights.length - 1)] ?? 0n;
    if (await askOld(client, witness, home.signers.faucet.address, at)) continue;
    const { latestHeightBlocks: newest } = await client.status();
    const isKept = keptStatesBlocks === 0 || at > newest - BigInt(keptStatesBlocks);
    assert.ok(!isKept, `the state after block ${at} cannot be asked; the newest is ${newest}`);
  }
}

async function checkTxs({ home, client, random, witness }: Checked, told: readonly [string, ToldTx][]): Promise<void> {
  const byHeight = Map.groupBy(told, ([, { heightBlocks }]) => heightBlocks);
  // The last ones are those that a crash could lose.
  for (const [height, txs] of [...byHeight].slice(-CHECKED_TX_BLOCKS)) {
    const [block, results] = await Promise.all([
      client.call("block", { height: `${height}` }),
      client.call("block_results", { height: `${height}` }),
    ]);
    assert.ok(block.ok && results.ok, `block ${height} and its results`);
    const { data } = block.result.block as { readonly data: { readonly txs: readonly string[] } };
    const hashes = data.txs.map((tx) => hashOf(Buffer.from(tx, "base64")));
    const codes = (results.result.txs_results as { readonly code: number }[]).map(({ code }) => code);
    for (const [hash, { code }] of txs) {
      const at = hashes.indexOf(hash);
      assert.ok(at >= 0, `transaction ${hash} was told of and is not in block ${height}`);
      assert.equal(codes[at], code, `code of transaction ${hash}`);
    }
    // CometBFT writes its index behind the block, and does not make up for what a crash left out.
    if (home.engine === "cometbft") continue;
    const [hash = ""] = txs[random.whole(0, txs.length - 1)] ?? [];
    const found = await client.tx(hash);
    assert.ok(found, `transaction ${hash} was told of and is not found`);
    addPlace([...(witness.txs.get(hash) ?? [])], { heightBlocks: found.heightBlocks, code: found.code }, hash);
  }
}

/**
 * The end: every block and transaction that was ever told of is there, every header names the one before, and all blocks
 * run anew on a store of their own give the same results and app hashes.
 * @returns the number of blocks
 */
export async function checkWhole({ home, witness }: Checked, rpcUrl: string): Promise<number> {
  witness.check();
  // The chain goes on meanwhile: what is told from now on is not asked for.
  const newestTold = witness.newestBlocks;
  const toldTxs = [...witness.txs].map(([hash, places]) => [hash, [...places]] as const);
  const chain = await readDecided(rpcUrl, home.genesis);
  const known = new Map<string, ToldTx[]>();
  for (const { height, hash, appHash, txs, results } of chain.blocks) {
    const at = BigInt(height);
    const { txResults } = JSON.parse(results) as { readonly txResults: readonly { readonly code: number }[] };
    const [told, toldAppHash] = [witness.blocks.get(at), witness.appHashes.get(at)];
    if (told !== undefined) assert.equal(hash.toUpperCase(), told, `hash of block ${at}`);
    if (toldAppHash !== undefined) assert.equal(appHash.toUpperCase(), toldAppHash, `app hash after block ${at}`);
    for (const [i, tx] of txs.entries()) {
      const code = txResults[i]?.code ?? -1;
      const txHash = hashOf(Buffer.from(tx, "hex"));
      const places = known.get(txHash) ?? [];
      addPlace(places, { heightBlocks: at, code }, txHash);
      known.set(txHash, places);
    }
  }
  const last = BigInt(chain.blocks.at(-1)?.height ?? "0");
  assert.ok(newestTold <= last + 1n, `block ${newestTold} was told of and is lost`);
  for (const [hash, places] of toldTxs) {
    for (const told of places.filter(({ heightBlocks }) => heightBlocks <= last)) {
      const place = known.get(hash)?.find(({ heightBlocks }) => heightBlocks === told.heightBlocks);
      assert.deepEqual(place, told, `transaction ${hash}`);
    }
  }
  assertReplayed(chain, await replay(chain));
  return chain.blocks.length;
}

/** What stands in the store of a node that is dead. */
export interface StoreAtRest {
  /** -1 where not even the genesis is. */
  readonly newestBlocks: bigint;
  readonly earliestBlocks: bigint;
}

/**
 * Opens a dead node's store, as a fresh process would: it is free, its newest state has its app hash, and no part of a
 * later block is there.
 */
export async function checkStoreAtRest(home: NodeHome, witness: Witness): Promise<StoreAtRest> {
  await using store = await openChainStore({ folder: home.layout.storeFolder });
  await store.verify();
  const newestBlocks = store.latestHeightBlocks() ?? -1n;
  assert.equal(store.appHash(newestBlocks + 1n), undefined);
  const appHash = store.appHash(newestBlocks);
  const told = witness.appHashes.get(newestBlocks);
  if (told !== undefined)
    assert.equal(
      Buffer.from(appHash ?? [])
        .toString("hex")
        .toUpperCase(),
      told,
    );
  // Under CometBFT a block may be told of before the application has run it.
  if (home.engine === "embedded" && witness.newestBlocks > 0n)
    assert.ok(newestBlocks >= witness.newestBlocks, "a block was told of and is lost");
  const mostTold = [...witness.appHashes.keys()].reduce((a, b) => (a > b ? a : b), -1n);
  assert.ok(newestBlocks >= mostTold, `the state after block ${mostTold} was told of and is lost`);
  return { newestBlocks, earliestBlocks: newestBlocks < 0n ? -1n : store.earliestHeightBlocks() };
}
