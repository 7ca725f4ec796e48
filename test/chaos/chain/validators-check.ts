import assert from "node:assert/strict";
import { bytesToHex, systemClock } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";
import { openChainStore } from "@turnpike/chain-store";
import { sha256 } from "@turnpike/crypto";
import { bank, createMessage, encodeMessage } from "@turnpike/proto";

/** A node whose answers are compared. */
export interface ComparedNode {
  readonly name: string;
  readonly rpc: string;
  readonly rest: string;
  /** First height whose block it has: 1, or the one behind the snapshot that it began with. */
  readonly earliest: bigint;
  /** First height whose state it has: the snapshot's own, where it began with one. */
  readonly firstState: bigint;
}

type Json = Readonly<Record<string, unknown>>;

const AT_ONCE = 8;
/** Results of a block of 50,000 transactions take their time on a machine that runs all validators. */
const PATIENT_MS = 120_000;
const METAS = 20n;

/** Calls `work` for each, a few at once. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  const worker = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** A client that waits long enough for a comparison: its answers judge no node's speed. */
export const patientClient = ({ rpc }: Pick<ComparedNode, "rpc">): ChainClient =>
  new ChainClient({ url: rpc, timeoutMs: PATIENT_MS }, { clock: systemClock });

async function ask(client: ChainClient, method: string, params: Json): Promise<Json> {
  const answer = await client.call(method, params);
  assert.ok(answer.ok, `${method} ${JSON.stringify(params)}: ${answer.ok ? "" : answer.error.data}`);
  return answer.result;
}

interface Meta {
  readonly block_id: { readonly hash: string };
  readonly header: { readonly height: string; readonly app_hash: string };
}

/** Header and its hash by height, as a node tells them. */
async function metasOf(node: ComparedNode, latest: bigint): Promise<ReadonlyMap<bigint, Meta>> {
  await using client = patientClient(node);
  const metas = new Map<bigint, Meta>();
  for (let from = node.earliest; from <= latest; from += METAS) {
    const to = from + METAS - 1n < latest ? from + METAS - 1n : latest;
    const answer = await ask(client, "blockchain", { minHeight: `${from}`, maxHeight: `${to}` });
    for (const meta of answer.block_metas as Meta[]) metas.set(BigInt(meta.header.height), meta);
  }
  return metas;
}

const heightsFrom = (first: bigint, latest: bigint): bigint[] =>
  Array.from({ length: Number(latest - first) + 1 }, (_, index) => first + BigInt(index));

/**
 * Headers, app hashes, results, and what `abci_query` answers for an account, at every height on every node.
 * @returns heights that were compared, over all nodes
 */
export async function compareHeights(nodes: readonly ComparedNode[], latest: bigint, address: string): Promise<number> {
  const [first] = nodes;
  assert.ok(first !== undefined);
  const expected = await metasOf(first, latest);
  assert.equal(expected.size, Number(latest - first.earliest) + 1);
  const request = createMessage(bank.QueryAllBalancesRequestSchema, { address });
  const data = Buffer.from(encodeMessage(bank.QueryAllBalancesRequestSchema, request)).toString("hex");
  const factsOf = async (client: ChainClient, node: ComparedNode, height: bigint): Promise<string> => {
    const results = await ask(client, "block_results", { height: `${height}` });
    const query = { path: "/cosmos.bank.v1beta1.Query/AllBalances", data, height: `${height}`, prove: false };
    const { response } = (await ask(client, "abci_query", query)) as { response: Json };
    assert.equal(Number(response.code ?? 0), 0, `${node.name}: the state of height ${height}: ${String(response.log)}`);
    return JSON.stringify([results, response]);
  };
  const facts = new Map<bigint, string>();
  await using firstClient = patientClient(first);
  await each(heightsFrom(first.earliest, latest), async (height) => {
    facts.set(height, await factsOf(firstClient, first, height));
  });
  let compared = 0;
  for (const node of nodes.slice(1)) {
    const metas = await metasOf(node, latest);
    await using client = patientClient(node);
    await each(heightsFrom(node.earliest, latest), async (height) => {
      const [ours, theirs] = [expected.get(height), metas.get(height)];
      assert.deepEqual(theirs, ours, `block ${height} on ${node.name}`);
      assert.equal(
        await factsOf(client, node, height),
        facts.get(height),
        `results and state of ${height}: ${node.name}`,
      );
      compared++;
    });
  }
  return compared;
}

/** Bytes of REST answers at some heights, the same on every node. @returns how many were compared */
export async function compareRest(
  nodes: readonly ComparedNode[],
  paths: readonly string[],
  heights: readonly bigint[],
): Promise<number> {
  const [first] = nodes;
  assert.ok(first !== undefined);
  const bytesOf = async ({ rest, name }: ComparedNode, path: string, height: bigint): Promise<string> => {
    const response = await fetch(`${rest}${path}`, { headers: { "x-cosmos-block-height": `${height}` } });
    assert.equal(response.status, 200, `${name}: ${path} at ${height}`);
    return response.text();
  };
  let compared = 0;
  for (const height of heights) {
    for (const path of paths) {
      const expected = await bytesOf(first, path, height);
      for (const node of nodes.slice(1)) {
        if (height < node.firstState) continue;
        assert.equal(await bytesOf(node, path, height), expected, `${node.name}: ${path} at ${height}`);
        compared++;
      }
    }
  }
  return compared;
}

/**
 * Every transaction that a node said is in a block is in that block on every node. The block is read and not CometBFT's index of
 * transactions, which lacks those of a block after which the node was killed.
 */
export async function findTold(nodes: readonly ComparedNode[], told: ReadonlyMap<string, bigint>): Promise<void> {
  const heights = [...new Set(told.values())];
  for (const node of nodes) {
    await using client = patientClient(node);
    const hashes = new Map<bigint, ReadonlySet<string>>();
    await each(heights, async (height) => {
      const { block } = (await ask(client, "block", { height: `${height}` })) as { block: { data: { txs: string[] } } };
      const ofBlock = block.data.txs.map((tx) => bytesToHex(sha256(Buffer.from(tx, "base64"))).toUpperCase());
      hashes.set(height, new Set(ofBlock));
    });
    for (const [hash, height] of told) {
      assert.ok(hashes.get(height)?.has(hash.toUpperCase()), `${hash} in block ${height} on ${node.name}`);
    }
  }
}

/** A node's store, after the node has ended. */
export interface ComparedStore {
  readonly name: string;
  readonly folder: string;
  readonly firstState: bigint;
}

/** App hashes in the nodes' own stores, which must not be in use. @returns hashes that were compared */
export async function compareStores(stores: readonly ComparedStore[], latest: bigint): Promise<number> {
  const hashesOf = async ({ folder, firstState }: ComparedStore): Promise<ReadonlyMap<bigint, string>> => {
    await using store = await openChainStore({ folder });
    const heights = heightsFrom(firstState, latest);
    return new Map(heights.map((height) => [height, Buffer.from(store.appHash(height) ?? "").toString("hex")]));
  };
  const [first, ...others] = stores;
  assert.ok(first !== undefined);
  const expected = await hashesOf(first);
  assert.ok([...expected.values()].every((hash) => /^[0-9a-f]{64}$/.test(hash)));
  let compared = 0;
  for (const store of others) {
    for (const [height, hash] of await hashesOf(store)) {
      assert.equal(hash, expected.get(height), `app hash ${height} in the store of ${store.name}`);
      compared++;
    }
  }
  return compared;
}
