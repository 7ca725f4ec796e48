import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  openTestNode,
  START_AMOUNT,
  sendTx,
  testGenesis,
  testMachine,
  type Wish,
} from "@turnpike/testkit/embedded-node";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import type { MempoolOptions } from "../mempool/mempool.ts";
import type { Submission } from "../types.ts";
import type { EmbeddedEngine } from "./embedded-engine.ts";

const BLOCK_GAS = 400_000_000n;
/** Minimum price of the nodes: one upokt for a million units. */
const GAS_PRICES = [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }];
const CLIENT = 2;

const shown = (sent: Submission): string =>
  sent.kind === "refused" ? sent.text : sent.kind === "known" ? "known" : `code ${sent.result.code}`;

async function withNode(mempool: Partial<MempoolOptions>, use: (node: EmbeddedEngine) => Promise<void>): Promise<void> {
  await using folder = await scratchFolder();
  const genesis = testGenesis({ maxGas: `${BLOCK_GAS}` });
  await using node = await openTestNode({
    folder: folder.path,
    genesis,
    machine: testMachine(GAS_PRICES),
    mempool,
  });
  await use(node);
}

function submit(node: EmbeddedEngine, wish: Wish): string {
  return shown(node.submit(sendTx(wish)));
}

/** Number of the block that has a transaction; undefined when none of the next ones has it. */
async function blockOf(node: EmbeddedEngine, tx: Uint8Array, blocks: number): Promise<number | undefined> {
  for (let n = 1; n <= blocks; n++) {
    const { block } = await node.produceBlock();
    if (block.txs.some((one) => Buffer.compare(one, tx) === 0)) return n;
  }
  return undefined;
}

/** A timeout of unordered transactions, a minute after the newest block. */
const timeoutOf = (node: EmbeddedEngine): bigint =>
  must(node.blocks.block(node.blocks.latestHeightBlocks())).block.header.timeNs + 60_000_000_000n;

suite("block space", () => {
  test("300 transactions that ask for a whole block each keep no client of the same price waiting", async () => {
    await withNode({}, async (node) => {
      for (let i = 0; i < 300; i++) {
        assert.equal(submit(node, { from: 0, sequence: BigInt(i), gas: BLOCK_GAS, fee: 400n }), "code 0");
      }
      const client = sendTx({ from: CLIENT, sequence: 0n, gas: 1_000_000n, fee: 1n });
      assert.equal(shown(node.submit(client)), "code 0");
      assert.equal(await blockOf(node, client, 25), 1);
    });
  });

  test("attack: what follows a sequence that check_tx used closes no block for free", async () => {
    await withNode({}, async (node) => {
      assert.equal(submit(node, { from: 0, sequence: 0n, gas: 100_000n, fee: 1n }), "code 0");
      assert.equal(node.check(sendTx({ from: 0, sequence: 1n, gas: 100_000n, fee: 1n })).code, 0);
      assert.equal(submit(node, { from: 0, sequence: 2n, gas: BLOCK_GAS - 100_000n, fee: 40_000n }), "code 0");
      const client = sendTx({ from: CLIENT, sequence: 0n, gas: 1_000_000n, fee: 1n });
      assert.equal(shown(node.submit(client)), "code 0");
      const { block } = await node.produceBlock();
      assert.equal(block.txs.length, 2);
      assert.ok(block.txs.some((tx) => Buffer.compare(tx, client) === 0));
      // The next check does not have the sequence.
      assert.equal(node.mempool.numTxs(), 0);
      assert.equal(submit(node, { from: 0, sequence: 1n, gas: BLOCK_GAS, fee: 400n }), "code 0");
      assert.equal((await node.produceBlock()).block.txs.length, 1);
    });
  });

  test("attack: what an earlier transaction of the block makes unable to pay closes no block", async () => {
    await withNode({}, async (node) => {
      // It sends all its coins away: the check, which runs no messages, does not see it.
      assert.equal(
        submit(node, { from: 0, sequence: 0n, gas: 100_000n, fee: 2n, amount: START_AMOUNT - 2n }),
        "code 0",
      );
      assert.equal(submit(node, { from: 0, sequence: 1n, gas: BLOCK_GAS - 100_000n, fee: 8_000n }), "code 0");
      const client = sendTx({ from: CLIENT, sequence: 0n, gas: 100_000n, fee: 1n });
      assert.equal(shown(node.submit(client)), "code 0");
      assert.equal(await blockOf(node, client, 1), 1);
      assert.deepEqual(
        node.blocks.results(1n)?.txResults.map(({ code }) => code),
        [0, 0],
      );
      assert.equal(node.mempool.numTxs(), 0);
    });
  });

  test("attack: a block is not closed for a fortieth of its price, by a transaction too long to be tried", async () => {
    await withNode({}, async (node) => {
      const each = 10_000_000n;
      const wish = { from: 0, gas: each + 1n, fee: 41n, amount: START_AMOUNT - 41n } as const;
      assert.equal(submit(node, { ...wish, sequence: 0n }), "code 0");
      for (let i = 1n; i <= 38n; i++) {
        assert.equal(submit(node, { from: 0, sequence: i, gas: each, fee: 40n, amount: 1n }), "code 0");
      }
      const clients = [0n, 1n, 2n].map((sequence) =>
        sendTx({ from: CLIENT, sequence, gas: each, fee: 10n, amount: 1n }),
      );
      for (const client of clients) assert.equal(shown(node.submit(client)), "code 0");
      const { block } = await node.produceBlock();
      assert.equal(block.txs.length, 4);
      for (const client of clients) assert.ok(block.txs.some((tx) => Buffer.compare(tx, client) === 0));
      assert.deepEqual(
        node.blocks.results(1n)?.txResults.map(({ code }) => code),
        [0, 0, 0, 0],
      );
    });
  });

  test("attack: a transaction that names accounts without their grants keeps none of theirs out of a full block", async () => {
    await withNode({}, async (node) => {
      // It asks for a whole block at the lowest price: the block is full, and it is in none.
      assert.equal(submit(node, { from: 0, sequence: 0n, gas: BLOCK_GAS, fee: 400n, amount: 1n }), "code 0");
      const [victim, attacker] = [CLIENT, 1];
      const theft = { from: attacker, sequence: 0n, gas: 10_000_001n, fee: 1_001n, amount: START_AMOUNT };
      assert.equal(submit(node, { ...theft, forAccounts: [victim] }), "code 0");
      const sent = sendTx({ from: victim, sequence: 0n, gas: 200_000n, fee: 15n, amount: 1n });
      assert.equal(shown(node.submit(sent)), "code 0");
      assert.equal(await blockOf(node, sent, 1), 1);
      const codes = node.blocks.results(1n)?.txResults.map(({ code }) => code);
      assert.deepEqual(codes, [2, 0]);
    });
  });

  test("what does not fit is passed over with what follows it, and the rest of the block is used", async () => {
    await withNode({}, async (node) => {
      const half = BLOCK_GAS / 2n;
      assert.equal(submit(node, { from: 0, sequence: 0n, gas: half + 1n, fee: 900n }), "code 0");
      assert.equal(submit(node, { from: 1, sequence: 0n, gas: half, fee: 600n }), "code 0");
      assert.equal(submit(node, { from: 1, sequence: 1n, gas: 100_000n, fee: 50n }), "code 0");
      const client = sendTx({ from: CLIENT, sequence: 0n, gas: 1_000_000n, fee: 1n });
      assert.equal(shown(node.submit(client)), "code 0");
      const { block } = await node.produceBlock();
      assert.equal(block.txs.length, 2);
      assert.equal(Buffer.compare(block.txs[1] ?? Buffer.alloc(0), client), 0);
      assert.equal((await node.produceBlock()).block.txs.length, 2);
    });
  });

  test("a client stays out only while all gas of a block pays more than it does", async () => {
    await withNode({}, async (node) => {
      // The usual fee of a small transaction, 1 upokt, is ten times the least price of 100,000 units.
      const client = sendTx({ from: CLIENT, sequence: 0n, gas: 100_000n, fee: 1n });
      assert.equal(shown(node.submit(client)), "code 0");
      for (let i = 0; i < 3; i++) {
        // The whole block's gas at more than the client's price costs 4,001 upokt a block; 4,000 do not keep it out.
        assert.equal(
          submit(node, { from: 0, sequence: BigInt(i), gas: BLOCK_GAS, fee: i < 2 ? 4_001n : 4_000n }),
          "code 0",
        );
      }
      assert.equal(await blockOf(node, client, 5), 3);
      for (let i = 3; i < 6; i++) {
        assert.equal(submit(node, { from: 0, sequence: BigInt(i), gas: BLOCK_GAS, fee: 4_400n }), "code 0");
      }
      const [usual, raised] = [
        sendTx({ from: CLIENT, sequence: 1n, gas: 100_000n, fee: 1n }),
        sendTx({ from: 1, sequence: 0n, gas: 100_000n, fee: 2n }),
      ];
      assert.deepEqual([shown(node.submit(usual)), shown(node.submit(raised))], ["code 0", "code 0"]);
      // Beside a transaction that pays more there is no room for what asks for a whole block: others have it.
      assert.deepEqual((await node.produceBlock()).block.txs, [raised, usual]);
    });
  });

  test("a place in a full mempool goes to who pays a tenth more, and the last of a block loses it", async () => {
    await withNode({ maxTxs: 20 }, async (node) => {
      for (let i = 0; i < 20; i++) {
        assert.equal(submit(node, { from: i % 2, sequence: BigInt(i >> 1), gas: 1_000_000n, fee: 10n }), "code 0");
      }
      const full = /^mempool is full: number of txs 20 \(max: 20\)/;
      assert.match(submit(node, { from: CLIENT, sequence: 0n, gas: 1_000_000n, fee: 10n }), full);
      const client = sendTx({ from: CLIENT, sequence: 0n, gas: 1_000_000n, fee: 11n });
      assert.equal(shown(node.submit(client)), "code 0");
      assert.equal(node.mempool.numTxs(), 20);
      // The place was that of the newest. Its sequence can be used again, by what does not follow a cheap one.
      assert.match(submit(node, { from: 1, sequence: 9n, gas: 1_000_000n, fee: 12n }), full);
      assert.equal(await blockOf(node, client, 1), 1);
      const results = node.blocks.results(1n)?.txResults.map(({ code }) => code);
      assert.deepEqual(
        results,
        Array.from({ length: 20 }, () => 0),
      );
      assert.equal(submit(node, { from: 1, sequence: 9n, gas: 1_000_000n, fee: 10n }), "code 0");
    });
  });

  test("neither a forged price nor one behind a cheap transaction takes a place in a full mempool", async () => {
    await withNode({ maxTxs: 4 }, async (node) => {
      for (let i = 0; i < 3; i++) {
        assert.equal(submit(node, { from: 0, sequence: BigInt(i), gas: 1_000_000n, fee: 10n }), "code 0");
      }
      assert.equal(submit(node, { from: 1, sequence: 0n, gas: 1_000_000n, fee: 10n }), "code 0");
      assert.match(submit(node, { from: 1, sequence: 1n, gas: 1_000_000n, fee: 1_000n }), /^mempool is full/);
      const forged = sendTx({ from: CLIENT, sequence: 0n, gas: 1_000_000n, fee: 1_000n });
      forged[forged.length - 1] = (forged.at(-1) ?? 0) ^ 1;
      assert.equal(shown(node.submit(forged)), "code 4");
      assert.equal(node.mempool.numTxs(), 4);
    });
  });

  test("one signer has its share of the mempool and no more; others have room", async () => {
    await withNode({ maxTxsOfSigner: 5 }, async (node) => {
      await node.produceBlock();
      for (let i = 0; i < 5; i++) assert.equal(submit(node, { from: 0, sequence: BigInt(i), fee: 1n }), "code 0");
      assert.match(
        submit(node, { from: 0, sequence: 5n, fee: 9n }),
        /^too many transactions of pokt1\w+ wait \(max: 5\)/,
      );
      const unordered = { from: 0, sequence: 0n, fee: 9n, timeoutNs: timeoutOf(node) };
      assert.match(submit(node, unordered), /^too many transactions/);
      assert.equal(submit(node, { from: 1, sequence: 0n, fee: 1n }), "code 0");
      await node.produceBlock();
      assert.equal(submit(node, { from: 0, sequence: 5n, fee: 1n }), "code 0");
    });
  });

  test("a transaction with the same sequence takes the place of one that pays a tenth less, with all that follow it", async () => {
    await withNode({}, async (node) => {
      for (let i = 0; i < 4; i++) {
        assert.equal(submit(node, { from: 0, sequence: BigInt(i), gas: 1_000_000n, fee: 10n, amount: 1n }), "code 0");
      }
      assert.equal(submit(node, { from: 0, sequence: 1n, gas: 1_000_000n, fee: 10n, amount: 2n }), "code 32");
      const forged = sendTx({ from: 0, sequence: 1n, gas: 1_000_000n, fee: 500n, amount: 2n });
      forged[forged.length - 1] = (forged.at(-1) ?? 0) ^ 1;
      assert.equal(shown(node.submit(forged)), "code 4");
      const raised = sendTx({ from: 0, sequence: 1n, gas: 1_000_000n, fee: 11n, amount: 2n });
      assert.equal(shown(node.submit(raised)), "code 0");
      assert.equal(shown(node.submit(raised)), "known");
      assert.equal(node.mempool.numTxs(), 4);
      // Sequences go on where they were.
      assert.equal(submit(node, { from: 0, sequence: 4n, gas: 1_000_000n, fee: 10n }), "code 0");
      assert.equal(submit(node, { from: 0, sequence: 4n, gas: 1_000_000n, fee: 2_000_000n }), "code 5");
      const { block } = await node.produceBlock();
      assert.equal(block.txs.length, 5);
      assert.equal(Buffer.compare(block.txs[1] ?? Buffer.alloc(0), raised), 0);
      assert.deepEqual(
        node.blocks.results(1n)?.txResults.map(({ code }) => code),
        [0, 0, 0, 0, 0],
      );
    });
  });

  test("an unordered transaction with the same timeout is replaced in the same way", async () => {
    await withNode({}, async (node) => {
      await node.produceBlock();
      const wish = { from: 0, sequence: 0n, gas: 1_000_000n, timeoutNs: timeoutOf(node) };
      assert.equal(submit(node, { ...wish, fee: 10n, amount: 1n }), "code 0");
      assert.equal(submit(node, { ...wish, fee: 10n, amount: 2n }), "code 18");
      assert.equal(submit(node, { ...wish, fee: 11n, amount: 2n }), "code 0");
      assert.equal(node.mempool.numTxs(), 1);
      assert.equal((await node.produceBlock()).block.txs.length, 1);
      assert.deepEqual(
        node.blocks.results(2n)?.txResults.map(({ code }) => code),
        [0],
      );
    });
  });

  test("a chain of transactions whose first expires leaves the mempool and takes no gas of a block", async () => {
    await withNode({}, async (node) => {
      // The whole first block is another's.
      assert.equal(submit(node, { from: 1, sequence: 0n, gas: BLOCK_GAS, fee: 40_000n }), "code 0");
      assert.equal(submit(node, { from: 0, sequence: 0n, fee: 1n, gas: 1_000_000n, timeoutHeight: 1n }), "code 0");
      for (let i = 1; i < 20; i++) {
        assert.equal(submit(node, { from: 0, sequence: BigInt(i), gas: 10_000_000n, fee: 1_000n }), "code 0");
      }
      await node.produceBlock();
      assert.equal(node.mempool.numTxs(), 0);
      const client = sendTx({ from: CLIENT, sequence: 0n, gas: 1_000_000n, fee: 1n });
      assert.equal(shown(node.submit(client)), "code 0");
      assert.equal(submit(node, { from: 0, sequence: 0n, fee: 1n }), "code 0");
      assert.equal((await node.produceBlock()).block.txs.length, 2);
    });
  });
});
