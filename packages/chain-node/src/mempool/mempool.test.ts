import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Clock, systemClock } from "@turnpike/base";
import type { TxFacts, TxResult } from "@turnpike/chain";
import {
  ADDRESSES,
  openTestNode,
  START_AMOUNT,
  sendTx,
  testGenesis,
  testMachine,
} from "@turnpike/testkit/embedded-node";
import { readRecordedTx, scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import type { Submission } from "../types.ts";
import { type CheckKind, DEFAULT_MEMPOOL, Mempool } from "./mempool.ts";
import { compareOffers, inBlockOrder, type Placed, pickFitting } from "./mempool-order.ts";

const fine: TxResult = {
  code: 0,
  codespace: "",
  log: "",
  data: new Uint8Array(0),
  gasWanted: 100n,
  gasUsed: 1n,
  events: [],
};
const bytesOf = (text: string): Uint8Array => Buffer.from(text);
const shown = (sent: Submission): string =>
  sent.kind === "refused" ? sent.text : sent.kind === "known" ? "known" : `code ${sent.result.code}`;

const UNPAID = { feePayer: "", feeUpokt: 0n, spends: new Map<string, bigint>(), grantedSpends: [] };
const factsOf = (tx: Uint8Array, signers: readonly string[]): TxFacts => ({
  offer: { fee: 0n, gas: 100n },
  signers,
  isOrdered: true,
  slots: [Buffer.from(tx).toString()],
  ...UNPAID,
});

function poolOf(
  opts: Partial<typeof DEFAULT_MEMPOOL> = {},
  check: (tx: Uint8Array, kind: CheckKind) => TxResult = () => fine,
  signersOf: (tx: Uint8Array) => readonly string[] = () => [],
  clock: Clock = systemClock,
) {
  return new Mempool(
    { ...DEFAULT_MEMPOOL, ...opts },
    {
      check,
      uncheck: () => undefined,
      factsOf: (tx) => factsOf(tx, signersOf(tx)),
      trial: () => () => true,
      maxDataBytes: () => 1000n,
      clock,
    },
  );
}

suite("mempool", () => {
  test("its bounds have CometBFT's texts", () => {
    const pool = poolOf({ maxTxs: 2, maxTxsBytes: 40, maxTxBytes: 30 });
    assert.equal(shown(pool.submit(bytesOf("x".repeat(31)))), "Tx too large. Max size is 30, but got 31");
    assert.equal(shown(pool.submit(bytesOf("a".repeat(25)))), "code 0");
    assert.equal(
      shown(pool.submit(bytesOf("b".repeat(25)))),
      "mempool is full: number of txs 1 (max: 2), total txs bytes 25 (max: 40)",
    );
    assert.equal(shown(pool.submit(bytesOf("c"))), "code 0");
    assert.equal(
      shown(pool.submit(bytesOf("d"))),
      "mempool is full: number of txs 2 (max: 2), total txs bytes 26 (max: 40)",
    );
    assert.deepEqual([pool.numTxs(), pool.sizeBytes()], [2, 26]);
    assert.equal(pool.txs(1).length, 1);
    assert.equal(pool.txs(-1).length, 0);
    const large = poolOf();
    assert.equal(shown(large.submit(bytesOf("x".repeat(998)))), "tx pre check: tx size is too big: 1001, max: 1000");
    assert.equal(shown(large.submit(bytesOf("x".repeat(997)))), "code 0");
  });

  test("fail-duplicate-in-cache: a recorded transaction that is there already is known", () => {
    const pool = poolOf();
    const bytes = Buffer.from(readRecordedTx("fail-duplicate-in-cache").tx_bytes, "base64");
    assert.deepEqual([shown(pool.submit(bytes)), shown(pool.submit(bytes))], ["code 0", "known"]);
  });

  test("what was seen is known, also after its block; what failed may come again; the memory is bounded", () => {
    let code = 0;
    const pool = poolOf({ maxSeen: 3 }, () => ({ ...fine, code }));
    const [a, b, c, d] = ["a", "b", "c", "d"].map(bytesOf) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
    assert.equal(shown(pool.submit(a)), "code 0");
    assert.equal(shown(pool.submit(a)), "known");
    pool.update([a], [fine]);
    assert.equal(pool.numTxs(), 0);
    assert.equal(shown(pool.submit(a)), "known");
    assert.equal(shown(pool.submit(b)), "code 0");
    pool.update([b], [{ ...fine, code: 5 }]);
    assert.equal(shown(pool.submit(b)), "code 0");
    code = 7;
    assert.equal(shown(pool.submit(c)), "code 7");
    assert.equal(shown(pool.submit(c)), "code 7");
    code = 0;
    for (const tx of [c, d]) assert.equal(shown(pool.submit(tx)), "code 0");
    // Three are remembered, and the first is none of them.
    assert.equal(shown(pool.submit(a)), "code 0");
    assert.equal(pool.numTxs(), 4);
    // Waiting and forgotten: checked, and not taken twice.
    assert.equal(shown(pool.submit(b)), "code 0");
    assert.equal(pool.numTxs(), 4);
  });

  test("a full mempool is checked again in steps; before a new transaction comes what it follows", async () => {
    const checked: string[] = [];
    const signersOf = (tx: Uint8Array): string[] => Buffer.from(tx).toString().split(" ").slice(1);
    const pool = poolOf(
      {},
      (tx, kind) => {
        const text = Buffer.from(tx).toString();
        if (kind === "again") checked.push(text);
        return { ...fine, code: kind === "again" && text.startsWith("late") ? 5 : 0 };
      },
      signersOf,
    );
    const names = Array.from({ length: 60 }, (_, i) => `first${i} x${i}`);
    for (const text of [...names, "1 a", "2 b", "late3 b c", "4 d", "5 c"]) pool.submit(bytesOf(text));
    pool.update([], []);
    assert.deepEqual(checked, []);
    // What c signed follows what b and c signed, and that what b signed.
    pool.submit(bytesOf("6 c"));
    assert.deepEqual(checked, ["2 b", "late3 b c", "5 c"]);
    await pool.settle(new AbortController().signal);
    assert.deepEqual(checked.slice(-2), ["1 a", "4 d"]);
    assert.equal(new Set(checked).size, checked.length);
    assert.equal(pool.numTxs(), 65);
    pool.update([], []);
    await pool.settle(AbortSignal.abort());
    assert.equal(checked.length, 65);
    // A block checks what it takes.
    assert.deepEqual(pool.reap(100n).length, 1);
    assert.equal(checked.length, 66);
  });

  test("attack: CometBFT waits half a second for checks after a block, whatever waits", () => {
    let nowMs = 0;
    let checks = 0;
    let isValid = true;
    const pool = poolOf(
      { mirrors: true },
      (_, kind) => {
        if (kind === "again") checks++;
        if (kind === "again") nowMs += 10;
        return isValid ? fine : { ...fine, code: 5 };
      },
      (tx) => [`${tx[0] ?? 0}`],
      { nowMs: () => nowMs, monotonicMs: () => nowMs },
    );
    const txs = Array.from({ length: 200 }, (_, i) => Uint8Array.of(i));
    for (const tx of txs) pool.submit(tx);
    pool.update([], []);
    for (const tx of txs) assert.equal(pool.recheck(tx).code, 0);
    assert.deepEqual([checks, pool.numTxs()], [51, 200]);
    // The others are checked when a block needs them.
    isValid = false;
    const room = { maxBytes: 1000n, maxGas: -1n };
    assert.equal(pool.pick(txs, room).length, 51);
    assert.equal(checks, 62);
    // What failed there leaves CometBFT's mempool without another check.
    pool.update([], []);
    const codes = txs.map((tx) => pool.recheck(tx).code);
    assert.deepEqual([codes.filter((code) => code !== 0).length, checks], [62, 113]);
  });

  test("a block waits a tenth of a second for checks, and other work a few milliseconds", async () => {
    let nowMs = 0;
    let checks = 0;
    const pool = poolOf(
      {},
      (_, kind) => {
        if (kind === "again") checks++;
        if (kind === "again") nowMs++;
        return fine;
      },
      (tx) => [`${(tx[0] ?? 0) % 7}`],
      { nowMs: () => nowMs, monotonicMs: () => nowMs },
    );
    const texts = Array.from({ length: 300 }, (_, i) => Uint8Array.of(i % 256, i >> 8));
    for (const tx of texts) pool.submit(tx);
    pool.update([], []);
    assert.equal(checks, 0);
    const first = pool.reap(-1n);
    assert.ok(checks <= 101 && first.length <= checks, `${checks} checks before a block of ${first.length}`);
    let turns = 0;
    const counted = new AbortController();
    const turn = (): void => {
      turns++;
      if (!counted.signal.aborted) setImmediate(turn);
    };
    setImmediate(turn);
    await pool.settle(counted.signal);
    counted.abort();
    assert.equal(checks, 300);
    assert.ok(turns >= (300 - 101) / 6, `${turns} turns of other work`);
    assert.deepEqual([pool.numTxs(), pool.reap(-1n).length], [300, 250]);
  });

  test("a block takes what fits its bytes and its gas", () => {
    const pool = poolOf();
    for (let n = 0; n < 9; n++) pool.submit(bytesOf(`${n}`.repeat(300)));
    assert.equal(pool.reap(-1n).length, 3);
    assert.equal(pool.reap(250n).length, 2);
    assert.equal(pool.reap(0n).length, 0);
  });

  test("the order is that of price, never against the order of one signer", () => {
    const item = fc.record({
      fee: fc.bigInt(0n, 5n),
      gas: fc.bigInt(1n, 2n),
      isOrdered: fc.boolean(),
      signers: fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.array(item, { maxLength: 40 }), fc.bigInt(0n, 30n), (items, maxGas) => {
        const arrived = items.map(
          ({ fee, gas, isOrdered, signers }, arrival): Placed & { readonly arrival: number } => ({
            facts: { offer: { fee, gas }, signers, isOrdered, slots: [], ...UNPAID },
            bytes: new Uint8Array(0),
            sizeBytes: 1n,
            arrival,
          }),
        );
        const follows = (one: Placed, other: Placed): boolean =>
          one.facts.isOrdered &&
          other.facts.isOrdered &&
          one.facts.signers.some((s) => other.facts.signers.includes(s));
        const ordered = inBlockOrder(arrived);
        assert.equal(new Set(ordered).size, arrived.length);
        for (const [i, one] of ordered.entries()) {
          for (const later of ordered.slice(i + 1)) assert.ok(!follows(one, later) || one.arrival < later.arrival);
        }
        // A transaction that follows no other never has a better offer than the worst until then.
        const placed = new Set<Placed>();
        let worst = { fee: 6n, gas: 1n };
        for (const next of ordered) {
          const { offer } = next.facts;
          if (compareOffers(offer, worst) > 0) worst = offer;
          for (const rival of arrived) {
            const isFree = arrived.every((one) => one.arrival >= rival.arrival || !follows(one, rival));
            if (placed.has(rival) || !isFree || rival === next) continue;
            assert.ok(compareOffers(rival.facts.offer, worst) >= 0);
          }
          placed.add(next);
        }
        // A block has nothing that follows what it has not, and what it leaves has no room or follows what was left.
        const picked = pickFitting(ordered, { maxBytes: 30n, maxGas });
        const isIn = new Set<Placed>(picked);
        const gas = picked.reduce((sum, one) => sum + one.facts.offer.gas, 0n);
        assert.ok(gas <= maxGas && picked.length <= 30);
        for (const one of ordered) {
          const isFree = arrived.every(
            (other) => isIn.has(other) || other.arrival >= one.arrival || !follows(other, one),
          );
          if (isIn.has(one)) assert.ok(isFree);
          else assert.ok(!isFree || gas + one.facts.offer.gas > maxGas || picked.length === 30);
        }
      }),
      { numRuns: 60 },
    );
  });

  test("blocks take the better price first, keep a sender's sequence, and drop what expires or cannot be paid", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    const sent = [
      sendTx({ from: 0, sequence: 0n, fee: 10n }),
      sendTx({ from: 0, sequence: 1n, fee: 90_000n }),
      sendTx({ from: 1, sequence: 0n, fee: 50_000n }),
      sendTx({ from: 2, sequence: 0n, fee: 20n }),
    ] as const;
    for (const tx of sent) assert.equal(shown(node.submit(tx)), "code 0");
    const stored = await node.produceBlock();
    assert.deepEqual(
      stored.block.txs.map((tx) => sent.findIndex((one) => Buffer.compare(one, tx) === 0)),
      [2, 3, 0, 1],
    );
    assert.deepEqual(
      node.blocks.results(1n)?.txResults.map(({ code }) => code),
      [0, 0, 0, 0],
    );
    assert.equal(node.mempool.numTxs(), 0);
    assert.equal(shown(node.submit(sent[0])), "known");
  });

  test("what waits is checked again after every block", async () => {
    await using folder = await scratchFolder();
    // A block has gas for one of them.
    await using node = await openTestNode({ folder: folder.path, genesis: testGenesis({ maxGas: "500000" }) });
    const left = START_AMOUNT - 30n;
    const first = sendTx({ from: 0, sequence: 0n, amount: left, fee: 20n });
    assert.equal(shown(node.submit(first)), "code 0");
    assert.equal(shown(node.submit(sendTx({ from: 0, sequence: 1n, fee: 11n }))), "code 0");
    assert.equal(shown(node.submit(sendTx({ from: 1, sequence: 0n, fee: 1n, timeoutHeight: 1n }))), "code 0");
    assert.equal(shown(node.submit(sendTx({ from: 2, sequence: 0n, fee: 1n }))), "code 0");
    const tooMuch = node.submit(sendTx({ from: 1, sequence: 1n, gas: 500_001n }));
    assert.ok(tooMuch.kind === "checked");
    assert.deepEqual([tooMuch.result.code, tooMuch.result.codespace], [41, "sdk"]);
    assert.equal(node.mempool.numTxs(), 4);
    await node.produceBlock();
    // The second can no longer pay its fee, and the third may stand in no later block.
    assert.deepEqual(node.blocks.block(1n)?.block.txs, [first]);
    assert.equal(node.mempool.numTxs(), 1);
    const [last] = node.mempool.txs(5);
    await node.produceBlock();
    assert.deepEqual(node.blocks.block(2n)?.block.txs, [last]);
    assert.equal(node.mempool.numTxs(), 0);
    assert.equal(node.mempool.sizeBytes(), 0);
  });

  test("a transaction below the node's price, out of sequence, or checked before another leaves the right state", async () => {
    await using folder = await scratchFolder();
    const machine = testMachine([{ denom: "upokt", numerator: 1n, denominator: 1000n }]);
    await using node = await openTestNode({ folder: folder.path, machine });
    assert.equal(shown(node.submit(sendTx({ from: 0, sequence: 0n, fee: 499n }))), "code 13");
    assert.equal(shown(node.submit(sendTx({ from: 0, sequence: 1n, fee: 500n }))), "code 32");
    // check_tx moves the sequence until the next block (recorded).
    assert.equal(node.check(sendTx({ from: 0, sequence: 0n, fee: 500n })).code, 0);
    assert.equal(shown(node.submit(sendTx({ from: 0, sequence: 0n, fee: 500n }))), "code 32");
    await node.produceBlock();
    assert.equal(shown(node.submit(sendTx({ from: 0, sequence: 0n, fee: 500n }))), "code 0");
    const { timeNs } = node.blocks.block(1n)?.block.header ?? { timeNs: 0n };
    const unordered = sendTx({ from: 1, sequence: 0n, fee: 500n, timeoutNs: timeNs + 1_500_000_000n });
    assert.equal(shown(node.submit(unordered)), "code 0");
    assert.equal(shown(node.submit(unordered)), "known");
    assert.equal(node.mempool.numTxs(), 2);
    await node.produceBlock();
    assert.equal(node.blocks.block(2n)?.block.txs.length, 2);
    for (const junk of [new Uint8Array(0), bytesOf("junk"), Buffer.alloc(2000, 0xff)]) {
      const answer = node.submit(junk);
      assert.ok(answer.kind === "checked" && answer.result.code !== 0);
    }
    assert.equal(ADDRESSES.length, 3);
  });
});
