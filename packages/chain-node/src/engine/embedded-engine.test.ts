import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError, bytesToHex, isAppError } from "@turnpike/base";
import { ChainApp, chainStartOf } from "@turnpike/chain";
import { type ChainStore, openChainStore } from "@turnpike/chain-store";
import { headerHash, rfc3339ToNs, txHash, validatorsHash, verifyNextHeader } from "@turnpike/cometbft";
import { createEd25519Signer, sha256, validatorKeyAddress } from "@turnpike/crypto";
import {
  CHAIN_ID,
  openTestNode,
  sendTx,
  testGenesis,
  testMachine,
  tickingClock,
  VALIDATOR,
} from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { lightAt, must, verifyWholeChain } from "../../test/engine/verify.ts";
import type { NodeEvent } from "../types.ts";
import type { EmbeddedEngine } from "./embedded-engine.ts";
import { openEmbeddedNode } from "./open-embedded-node.ts";

const OTHER = createEd25519Signer(sha256(Uint8Array.of(9)));
const refused = (text: RegExp) => (error: unknown) => isAppError(error, "CONFIG_INVALID") && text.test(error.message);

async function produce(node: EmbeddedEngine, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await node.produceBlock();
}

/** The chain's genesis and a block, as CometBFT would drive it. */
async function firstStateOf(store: ChainStore): Promise<void> {
  const app = new ChainApp({ version: "0.1.35" }, { machine: testMachine(), store });
  const start = chainStartOf(testGenesis());
  await app.start(start);
  const { chainId, timeNanos } = start;
  app.run({ chainId, heightBlocks: 1n, timeNanos, hash: Buffer.alloc(32), proposer: Buffer.alloc(20) }, []);
  await app.commit([]);
}

function submitGood(node: EmbeddedEngine, tx: Uint8Array): void {
  const sent = node.submit(tx);
  assert.deepEqual(sent.kind === "checked" ? [sent.result.code, sent.result.log] : sent, [0, ""]);
}

suite("embedded engine", () => {
  test("a light client follows 200 blocks, and every block is the next one", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    const genesisAppHash = node.application.latestAppHash();
    for (let n = 0; n < 200; n++) {
      if (n % 10 === 0) submitGood(node, sendTx({ from: 0, sequence: BigInt(n / 10) }));
      await node.produceBlock();
    }
    assert.equal(node.blocks.latestHeightBlocks(), 200n);
    verifyWholeChain(node, genesisAppHash);
    for (let height = 2n; height <= 200n; height++) {
      assert.deepEqual(verifyNextHeader(CHAIN_ID, lightAt(node, height - 1n), lightAt(node, height)), { ok: true });
    }
    assert.equal(node.blocks.commit(199n)?.canonical, true);
    assert.equal(node.blocks.commit(200n)?.canonical, false);
    assert.equal(node.blocks.commit(201n), undefined);
    const { header } = must(node.blocks.block(1n)).block;
    assert.equal(header.timeNs, rfc3339ToNs(node.genesis.genesis_time));
    assert.deepEqual(node.blocks.blockByHash(headerHash(header))?.block.header, header);
  });

  test("a chain goes on where it stopped, from its first height on, and keeps what it read", async () => {
    await using folder = await scratchFolder();
    const genesis = testGenesis({ initialHeight: 7, appVersion: "3" });
    const open = () => openTestNode({ folder: folder.path, genesis });
    {
      await using node = await open();
      assert.equal(node.blocks.latestHeightBlocks(), 0n);
      assert.equal(node.blocks.validators(7n)?.validators.length, 1);
    }
    {
      await using node = await open();
      submitGood(node, sendTx({ from: 1, sequence: 0n }));
      await produce(node, 3);
      assert.deepEqual(node.moment().heightBlocks, 10n);
    }
    await using node = await open();
    const moment = node.moment();
    assert.equal(moment.heightBlocks, 10n);
    assert.equal(moment.lastCommit?.height, 9n);
    assert.equal(node.submit(sendTx({ from: 1, sequence: 0n })).kind, "checked");
    submitGood(node, sendTx({ from: 1, sequence: 1n }));
    await produce(node, 2);
    verifyWholeChain(node);
    assert.equal(node.blocks.baseHeightBlocks(), 7n);
    assert.equal(node.blocks.block(6n), undefined);
    assert.equal(node.blocks.block(8n)?.block.header.version.app, 3n);
    const tx = must(node.blocks.tx(txHash(sendTx({ from: 1, sequence: 0n }))));
    assert.deepEqual([tx.heightBlocks, tx.index, tx.result.code], [7n, 0, 0]);
    assert.equal((await node.blocks.searchTxs("tx.height=10", { order: "asc", skip: 0, take: 10 })).total, 1);
    assert.equal((await node.blocks.searchBlocks("block.height>=9", { order: "asc", skip: 0, take: 10 })).total, 3);
  });

  test("validators that change sign two heights later", async () => {
    await using folder = await scratchFolder();
    const machine = testMachine([], (height) => (height === 3n ? [{ publicKey: OTHER.publicKey, power: 2n }] : []));
    const open = () => openTestNode({ folder: folder.path, machine });
    {
      await using node = await open();
      await produce(node, 4);
    }
    await using node = await open();
    await produce(node, 8);
    const sizes = [3n, 4n, 5n, 6n, 13n].map((height) => node.blocks.validators(height)?.validators.length);
    assert.deepEqual(sizes, [1, 1, 2, 2, 2]);
    assert.equal(node.blocks.validators(14n), undefined);
    const headers = [3n, 4n, 5n].map((height) => must(node.blocks.block(height)).block.header);
    const [changed, before, after] = headers.map((header) => bytesToHex(header.validatorsHash));
    assert.deepEqual([changed, changed], [before, bytesToHex(must(headers[0]).nextValidatorsHash)]);
    assert.notEqual(after, before);
    assert.equal(bytesToHex(must(headers[1]).nextValidatorsHash), after);
    assert.equal(bytesToHex(validatorsHash(must(node.blocks.validators(5n)))), after);
    verifyWholeChain(node);
    // The other one's turn to propose passes: those blocks are of a later round.
    const rounds = Array.from({ length: 11 }, (_, n) => node.blocks.commit(BigInt(n + 1))?.commit.round ?? 0);
    assert.ok(rounds.some((round) => round > 0));
    assert.equal(rounds[0], 0);
  });

  test("a key without the power to finish a block stops the chain before the block", async () => {
    await using folder = await scratchFolder();
    const machine = testMachine([], (height) => (height === 2n ? [{ publicKey: OTHER.publicKey, power: 20n }] : []));
    await using node = await openTestNode({ folder: folder.path, machine });
    await produce(node, 3);
    await assert.rejects(node.produceBlock(), refused(/more than two thirds/));
    assert.equal(node.blocks.latestHeightBlocks(), 3n);
  });

  test("a genesis without our key, without validators, of a wrong shape or of another chain is refused", async () => {
    await using folder = await scratchFolder();
    const open = (genesis: ReturnType<typeof testGenesis>, signer = VALIDATOR) =>
      openTestNode({ folder: folder.path, genesis, signer });
    const good = testGenesis();
    await assert.rejects(open(good, OTHER), refused(/is no validator/));
    await assert.rejects(open(testGenesis({ validators: [] })), refused(/names no validator/));
    await assert.rejects(
      open(
        testGenesis({
          validators: [
            [VALIDATOR.publicKey, 2n],
            [OTHER.publicKey, 1n],
          ],
        }),
      ),
      refused(/two thirds/),
    );
    for (const bad of [
      { ...good, genesis_time: "yesterday" },
      { ...good, chain_id: "" },
      { ...good, chain_id: "c".repeat(51) },
      { ...good, initial_height: 0 },
      { ...good, initial_height: 1.5 },
      { ...good, app_hash: "AB" },
      { ...good, app_state: { ...good.app_state, bank: { nonsense: 1 } } },
      testGenesis({ maxBytes: "0" }),
      testGenesis({ maxBytes: "104857601" }),
      testGenesis({ maxGas: "-2" }),
      testGenesis({ maxGas: "1e3" }),
    ]) {
      await assert.rejects(open(bad), (error) => isAppError(error, "CONFIG_INVALID"));
    }
    // Nothing of that was written: the good one begins.
    {
      await using node = await open(good);
      await produce(node, 1);
    }
    await assert.rejects(open({ ...good, chain_id: "other" }), refused(/another genesis.*engine-test/));
    await assert.rejects(open({ ...good, genesis_time: "2026-11-21T14:10:45Z" }), refused(/another genesis/));
    await assert.rejects(open(testGenesis({ maxGas: "1000" })), refused(/consensus parameters/));
    const turned = Object.fromEntries(Object.entries(good.app_state).reverse());
    await using node = await open({ ...good, app_state: turned });
    assert.equal(node.blocks.latestHeightBlocks(), 1n);
  });

  test("a store that another engine drove is refused", async () => {
    await using folder = await scratchFolder();
    {
      await using node = await openTestNode({ folder: folder.path });
      await produce(node, 1);
    }
    {
      await using store = await openChainStore({ folder: folder.path });
      const value = new Uint8Array(9);
      const key = Buffer.from("0000000000000002", "hex");
      await store.commit({ heightBlocks: 2n, changes: [], records: [{ table: "app-blocks", key, value }] });
    }
    // With this engine's records before it, the block may as well be lost: both are said.
    await assert.rejects(
      openTestNode({ folder: folder.path }),
      (error) => isAppError(error, "CHAIN_STORE_DAMAGED") && /block 2.*missing.*CometBFT/.test(error.message),
    );
    await using other = await scratchFolder();
    {
      await using store = await openChainStore({ folder: other.path });
      await firstStateOf(store);
    }
    await assert.rejects(openTestNode({ folder: other.path }), refused(/CometBFT has driven it.*engine: cometbft/));
  });

  test("listeners hear of a block after it is written, in CometBFT's order, also beside one that throws", async () => {
    await using folder = await scratchFolder();
    const machine = testMachine([], () => [{ publicKey: VALIDATOR.publicKey, power: 11n }]);
    await using node = await openTestNode({ folder: folder.path, machine });
    const heard: string[] = [];
    node.listen(() => {
      throw new TypeError("of the test");
    });
    const stop = node.listen((event: NodeEvent) => {
      heard.push(event.type === "Tx" ? `Tx ${event.tx.index} ${event.tx.heightBlocks}` : event.type);
      assert.equal(node.blocks.latestHeightBlocks(), 1n);
      if (event.type === "Tx") assert.deepEqual(node.blocks.tx(event.tx.hash), event.tx);
      if (event.type === "NewBlock") assert.deepEqual(node.blocks.results(1n), event.results);
      if (event.type === "NewBlock") assert.deepEqual(node.blocks.block(1n), event.block);
    });
    submitGood(node, sendTx({ from: 0, sequence: 0n }));
    submitGood(node, sendTx({ from: 1, sequence: 0n }));
    await produce(node, 1);
    assert.deepEqual(heard, [
      "NewBlock",
      "NewBlockHeader",
      "NewBlockEvents",
      "Tx 0 1",
      "Tx 1 1",
      "ValidatorSetUpdates",
    ]);
    stop();
    stop();
    await produce(node, 1);
    assert.equal(heard.length, 6);
    assert.deepEqual(node.nodeId.length, 40);
    assert.deepEqual(node.blocks.block(1n)?.block.header.proposerAddress, validatorKeyAddress(VALIDATOR.publicKey));
  });

  test("what failed in a block may come again, what succeeded may not, and absurd heights have nothing", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    // More than there is: it fails in its block, and its bytes may come again.
    const fails = sendTx({ from: 0, sequence: 0n, amount: 2_000_000n });
    submitGood(node, fails);
    await produce(node, 1);
    const tx = must(node.blocks.tx(txHash(fails)));
    assert.deepEqual([tx.heightBlocks, tx.result.code], [1n, 5]);
    assert.equal(node.submit(fails).kind, "checked");
    const good = sendTx({ from: 0, sequence: 1n });
    submitGood(node, good);
    await produce(node, 1);
    assert.equal(node.blocks.tx(txHash(good))?.heightBlocks, 2n);
    assert.equal(node.submit(good).kind, "known");
    assert.equal(node.blocks.tx(new Uint8Array(3)), undefined);
    assert.equal(node.blocks.blockByHash(new Uint8Array(0)), undefined);
    for (const height of [-1n, 0n, 3n, 1n << 63n, 1n << 70n]) {
      assert.equal(node.blocks.block(height), undefined);
      assert.equal(node.blocks.results(height), undefined);
      assert.equal(node.blocks.commit(height), undefined);
    }
    assert.equal(node.blocks.validators(1n << 70n), undefined);
    assert.equal(node.blocks.validators(0n), undefined);
  });

  test("blocks come at the interval, empty ones too, until the node is closed", async () => {
    await using folder = await scratchFolder();
    const node = await openTestNode({ folder: folder.path, blockIntervalMs: 10 });
    const { promise, resolve } = Promise.withResolvers<void>();
    node.listen((event) => {
      if (event.type === "NewBlock" && event.block.block.header.height === 5n) resolve();
    });
    await promise;
    await node[Symbol.asyncDispose]();
    await node.ended;
    await assert.rejects(node.produceBlock());
    await using again = await openTestNode({ folder: folder.path });
    assert.ok(again.blocks.latestHeightBlocks() >= 5n);
    verifyWholeChain(again);
  });

  test("time rises by a millisecond a block where the clock stands still or goes back", async () => {
    await using folder = await scratchFolder();
    const clock = { ...tickingClock(), nowMs: () => 5 };
    await using node = await openTestNode({ folder: folder.path, clock });
    await produce(node, 4);
    verifyWholeChain(node);
    const times = [1n, 2n, 3n, 4n].map((height) => must(node.blocks.block(height)).block.header.timeNs);
    const [first = 0n] = times;
    assert.deepEqual(
      times,
      [0n, 1n, 2n, 3n].map((n) => first + n * 1_000_000n),
    );
  });

  test("a node that can make no more blocks says so, and still answers", async () => {
    await using folder = await scratchFolder();
    const machine = testMachine([], (height) => (height === 1n ? [{ publicKey: OTHER.publicKey, power: 20n }] : []));
    await using node = await openTestNode({ folder: folder.path, machine, blockIntervalMs: 10 });
    await assert.rejects(node.ended, refused(/more than two thirds/));
    assert.equal(node.blocks.latestHeightBlocks(), 2n);
    submitGood(node, sendTx({ from: 0, sequence: 0n }));
  });

  test("a block that finds no room on the disk is tried again", async () => {
    await using folder = await scratchFolder();
    let refusals = 2;
    const faults = {
      reach(name: string): void {
        if (name === "chain-store.planned" && store.latestHeightBlocks() === 3n && refusals-- > 0) {
          throw new AppError("CHAIN_STORE_FULL");
        }
      },
    };
    await using store = await openChainStore({ folder: folder.path }, { faults });
    const node = await openEmbeddedNode(
      { folder: folder.path, genesis: testGenesis(), moniker: "test", version: "0.1.35", blockIntervalMs: 10 },
      { store, machine: testMachine(), validatorSigner: VALIDATOR, nodeSigner: OTHER },
    );
    submitGood(node, sendTx({ from: 0, sequence: 0n }));
    const { promise, resolve } = Promise.withResolvers<void>();
    node.listen((event) => {
      if (event.type === "NewBlock" && event.block.block.header.height === 6n) resolve();
    });
    await promise;
    verifyWholeChain(node);
    await node[Symbol.asyncDispose]();
    assert.ok(refusals <= 0);
    // The store is the caller's.
    assert.ok((store.latestHeightBlocks() ?? 0n) >= 6n);
  });

  test("pruning forgets old states and no block", async () => {
    await using folder = await scratchFolder();
    const node = await openTestNode({ folder: folder.path, keepStatesBlocks: 5 });
    for (let n = 0; n < 40; n++) {
      submitGood(node, sendTx({ from: 0, sequence: BigInt(n) }));
      await node.produceBlock();
    }
    await node[Symbol.asyncDispose]();
    await using again = await openTestNode({ folder: folder.path });
    verifyWholeChain(again);
    const old = again.application.abciQuery("/cosmos.bank.v1beta1.Query/Params", new Uint8Array(0), 3n);
    assert.equal(old.code, 18);
    assert.match(old.log, /^failed to load state at height 3; .*\(latest height: 40\): invalid request$/);
    assert.equal(again.application.abciQuery("/cosmos.bank.v1beta1.Query/Params", new Uint8Array(0), 36n).code, 0);
  });
});
