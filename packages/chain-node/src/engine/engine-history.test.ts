import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { type AppAnswer, ChainApp, chainStartOf } from "@turnpike/chain";
import { type Bytes, openChainStore } from "@turnpike/chain-store";
import { moduleAddress } from "@turnpike/crypto";
import { auth, bank, baseQuery, createMessage, decodeMessage, encodeMessage } from "@turnpike/proto";
import { ADDRESSES, openTestNode, START_AMOUNT, sendTx, testMachine } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { must, verifyWholeChain } from "../../test/engine/verify.ts";
import type { EmbeddedEngine } from "./embedded-engine.ts";

const HOLDERS = [...ADDRESSES, moduleAddress("x"), moduleAddress("fee_collector")];
const pagination = createMessage(baseQuery.PageRequestSchema, { limit: 2n });

/** Questions whose answers a history changes, and some that fail. */
const QUESTIONS: readonly (readonly [path: string, data: Bytes])[] = [
  ...HOLDERS.flatMap((address): [string, Bytes][] => [
    [
      "/cosmos.bank.v1beta1.Query/AllBalances",
      encodeMessage(
        bank.QueryAllBalancesRequestSchema,
        createMessage(bank.QueryAllBalancesRequestSchema, { address, pagination }),
      ),
    ],
    [
      "/cosmos.auth.v1beta1.Query/Account",
      encodeMessage(auth.QueryAccountRequestSchema, createMessage(auth.QueryAccountRequestSchema, { address })),
    ],
  ]),
  ["/cosmos.bank.v1beta1.Query/TotalSupply", new Uint8Array(0)],
  ["/cosmos.auth.v1beta1.Query/Accounts", new Uint8Array(0)],
  ["/cosmos.bank.v1beta1.Query/Params", new Uint8Array(0)],
  ["/cosmos.bank.v1beta1.Query/Params", Buffer.from("ff")],
  ["/app/version", new Uint8Array(0)],
];

const answers = (node: EmbeddedEngine, heightBlocks?: bigint): AppAnswer[] =>
  QUESTIONS.map(([path, data]) => node.application.abciQuery(path, data, heightBlocks));

function balanceSum(node: EmbeddedEngine, heightBlocks: bigint): bigint {
  let sum = 0n;
  for (const address of HOLDERS) {
    const request = createMessage(bank.QueryBalanceRequestSchema, { address, denom: "upokt" });
    const bytes = encodeMessage(bank.QueryBalanceRequestSchema, request);
    const answer = node.application.grpcQuery("/cosmos.bank.v1beta1.Query/Balance", bytes, heightBlocks);
    assert.ok(answer.ok);
    const decoded = decodeMessage(bank.QueryBalanceResponseSchema, answer.value);
    assert.ok(decoded.ok);
    sum += BigInt(decoded.message.balance?.amount ?? "0");
  }
  return sum;
}

const step = fc.record({
  from: fc.nat(2),
  to: fc.constantFrom(...HOLDERS),
  amount: fc.bigInt(1n, START_AMOUNT),
  fee: fc.bigInt(0n, 2000n),
  block: fc.boolean(),
});

suite("history of the embedded chain", () => {
  test("every query at every past height answers as when it was the newest, and replay gives the same hashes", async () => {
    const run = fc.asyncProperty(fc.array(step, { minLength: 12, maxLength: 30 }), async (steps) => {
      await using folder = await scratchFolder();
      const told = new Map<bigint, AppAnswer[]>();
      {
        await using node = await openTestNode({ folder: folder.path });
        const sequences = [0n, 0n, 0n];
        for (const { block, ...wish } of steps) {
          const sent = node.submit(sendTx({ ...wish, sequence: sequences[wish.from] ?? 0n }));
          if (sent.kind === "checked" && sent.result.code === 0)
            sequences[wish.from] = (sequences[wish.from] ?? 0n) + 1n;
          if (!block) continue;
          await node.produceBlock();
          told.set(node.blocks.latestHeightBlocks(), answers(node));
        }
        await node.produceBlock();
      }
      await using node = await openTestNode({ folder: folder.path });
      verifyWholeChain(node);
      const newest = node.blocks.latestHeightBlocks();
      for (const [height, were] of told) assert.deepEqual(answers(node, height), were, `height ${height}`);
      for (let height = 1n; height <= newest; height++) {
        assert.equal(balanceSum(node, height), 3n * START_AMOUNT);
      }
      await replay(node);
    });
    await fc.assert(run, { numRuns: 4 });
  });
});

/** Runs the blocks of a chain again, from its genesis, on another store. */
async function replay(node: EmbeddedEngine): Promise<void> {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const app = new ChainApp({ version: "0.1.35" }, { machine: testMachine(), store });
  const { app_state, ...rest } = node.genesis;
  const turned = Object.fromEntries(Object.entries(app_state).reverse());
  const started = await app.start(chainStartOf({ ...rest, app_state: turned }));
  let appHash = started.appHash;
  for (let height = 1n; height <= node.blocks.latestHeightBlocks(); height++) {
    const { block, id } = must(node.blocks.block(height));
    const { header } = block;
    assert.equal(bytesToHex(header.appHash), bytesToHex(appHash), `before block ${height}`);
    const info = {
      chainId: header.chainId,
      heightBlocks: height,
      timeNanos: header.timeNs,
      hash: id.hash,
      proposer: header.proposerAddress,
    };
    const ran = app.run(info, block.txs);
    const was = must(node.blocks.results(height));
    assert.deepEqual(
      ran.outcome.results.map(({ code, gasUsed, log }) => [code, gasUsed, log]),
      was.txResults.map(({ code, gasUsed, log }) => [code, gasUsed, log]),
    );
    await app.commit([]);
    appHash = app.latestAppHash();
    assert.equal(bytesToHex(appHash), bytesToHex(was.appHash));
    assert.equal(bytesToHex(ran.appHash), bytesToHex(was.appHash));
  }
}
