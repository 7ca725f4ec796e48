import assert from "node:assert/strict";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROTOCOL_VERSION, pocketMachine } from "@turnpike/chain";
import { openEmbeddedNode } from "@turnpike/chain-node";
import { type ChainStore, openChainStore } from "@turnpike/chain-store";
import { createMessage, decodeMessage, encodeMessage, session } from "@turnpike/proto";
import { edSigner } from "../../support/chain/nodes.ts";
import { CLAIM_HEIGHT, claimTxs, GENESIS_TIME, type LargeSize, makeLarge, VALIDATOR } from "./large-ground.ts";

/** What was measured at one size. Bytes and counts are the same in every run. */
export interface LargeFigures {
  readonly claims: number;
  /** Bytes and entries that the genesis, a block without transactions, the blocks of claims and the settlement write. */
  readonly genesisBytes: number;
  readonly emptyBytes: number;
  readonly claimsBytes: number;
  readonly settleBytes: number;
  readonly settleEntries: number;
  readonly settleEvents: number;
  readonly settled: number;
  /** The store's file in the end. */
  readonly fileBytes: number;
  /** CPU in milliseconds: the median of blocks, one of claims, the settlement. */
  readonly emptyMs: number;
  readonly claimBlockMs: number;
  readonly settleMs: number;
  readonly heapMb: number;
  readonly memoryMb: number;
}

const BLOCKS_OF_CLAIMS = 4;
const LAST_HEIGHT = 45n;
const GET_SESSION = "/pocket.session.Query/GetSession";
const END_OF_CLAIM = /EventClaim(?:Settled|Expired)$/;

interface Written {
  bytes: number;
  entries: number;
}

/** A store that counts what is written to it. */
function counting(store: ChainStore, written: Written): ChainStore {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (name !== "commit") return typeof member === "function" ? member.bind(target) : member;
      return (block: Parameters<ChainStore["commit"]>[0]) => {
        for (const [key, value] of block.changes) written.bytes += key.length + (value?.length ?? 0);
        for (const { key, value } of block.records) written.bytes += key.length + value.length;
        written.entries += block.changes.length + block.records.length;
        return target.commit(block);
      };
    },
  });
}

const median = (list: readonly number[]): number => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0;

async function measure(size: LargeSize): Promise<LargeFigures> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-large-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const ground = makeLarge(size);
  const written: Written = { bytes: 0, entries: 0 };
  const store = stack.use(await openChainStore({ folder: join(folder, "store") }));
  let nowMs = Date.parse(GENESIS_TIME);
  const node = stack.use(
    await openEmbeddedNode(
      { folder, genesis: ground.genesis, moniker: "large", version: PROTOCOL_VERSION, mempool: { maxTxs: 10_000 } },
      {
        machine: pocketMachine({ gasPrices: [] }).machine,
        validatorSigner: VALIDATOR,
        nodeSigner: edSigner("node"),
        store: counting(store, written),
        // Blocks are a second apart, however fast they are made.
        clock: { nowMs: () => (nowMs += 1_000), monotonicMs: () => nowMs },
      },
    ),
  );
  let heap = 0;
  /** One block: its CPU, and what it wrote. */
  const block = async () => {
    const [cpu, before] = [process.cpuUsage(), { ...written }];
    const { block: made } = await node.produceBlock();
    const { user, system } = process.cpuUsage(cpu);
    heap = Math.max(heap, process.memoryUsage().heapUsed);
    const { bytes, entries } = { bytes: written.bytes - before.bytes, entries: written.entries - before.entries };
    const results = node.blocks.results(made.header.height);
    assert.ok(results);
    return { ms: (user + system) / 1_000, bytes, entries, txResults: results.txResults, events: results.events };
  };
  const empty: Awaited<ReturnType<typeof block>>[] = [];
  const genesisBytes = written.bytes;
  while (node.application.latestHeightBlocks() < CLAIM_HEIGHT - 1n) empty.push(await block());
  const sessions = ground.sessions.map(([applicationAddress, serviceId]) => {
    const asked = createMessage(session.QueryGetSessionRequestSchema, {
      applicationAddress,
      serviceId,
      blockHeight: 1n,
    });
    const answer = node.application.grpcQuery(GET_SESSION, encodeMessage(session.QueryGetSessionRequestSchema, asked));
    const read = answer.ok ? decodeMessage(session.QueryGetSessionResponseSchema, answer.value) : undefined;
    assert.ok(read?.ok === true && read.message.session !== undefined, "there is a session");
    return read.message.session;
  });
  const txs = claimTxs(ground, sessions);
  const part = Math.ceil(txs.length / BLOCKS_OF_CLAIMS);
  const ofClaims: typeof empty = [];
  for (let from = 0; from < txs.length; from += part) {
    const some = txs.slice(from, from + part);
    for (const tx of some) {
      const sent = node.submit(tx);
      assert.ok(
        sent.kind === "checked" && sent.result.code === 0,
        sent.kind === "checked" ? sent.result.log : sent.kind,
      );
    }
    const made = await block();
    assert.equal(made.txResults.length, some.length);
    assert.equal(made.txResults.find(({ code }) => code !== 0)?.log, undefined);
    ofClaims.push(made);
  }
  const ends = (made: (typeof empty)[number]): number =>
    made.events.filter(({ type }) => END_OF_CLAIM.test(type)).length;
  const later: typeof empty = [];
  while (node.application.latestHeightBlocks() < LAST_HEIGHT) later.push(await block());
  const settlements = later.filter((made) => ends(made) > 0);
  // A block settles a maximum of claims.
  assert.ok(settlements.length > 0);
  const sumOf = (amountOf: (made: (typeof empty)[number]) => number): number =>
    settlements.reduce((sum, made) => sum + amountOf(made), 0);
  const { size: fileBytes } = await stat(join(folder, "store", "chain.mdb"));
  return {
    claims: txs.length,
    genesisBytes,
    emptyBytes: median(empty.slice(4).map(({ bytes }) => bytes)),
    claimsBytes: ofClaims.reduce((sum, { bytes }) => sum + bytes, 0),
    settleBytes: sumOf(({ bytes }) => bytes),
    settleEntries: sumOf(({ entries }) => entries),
    settleEvents: sumOf(({ events }) => events.length),
    settled: sumOf(ends),
    fileBytes,
    emptyMs: median(empty.slice(4).map(({ ms }) => ms)),
    claimBlockMs: median(ofClaims.map(({ ms }) => ms)),
    settleMs: sumOf(({ ms }) => ms),
    heapMb: heap / 2 ** 20,
    memoryMb: process.resourceUsage().maxRSS / 1_024,
  };
}

process.once("message", (size: LargeSize) => {
  void measure(size).then(
    (figures) => process.send?.(figures, () => process.exit(0)),
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.stack : "?"}\n`);
      process.exit(1);
    },
  );
});
process.once("disconnect", () => process.exit(1));
