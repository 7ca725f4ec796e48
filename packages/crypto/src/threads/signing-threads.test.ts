import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { suite, test } from "node:test";
import { concatBytes } from "@turnpike/base";
import { eventually, virtualClock } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import { nonceOf } from "../../test/nonce-of.ts";
import { cosmosPublicKey, cosmosSign, cosmosVerify, privateKeyFromSecret } from "../cosmos/signatures.ts";
import { Rings } from "../ring/rings.ts";
import { type Signed, SigningThreads } from "./signing-threads.ts";
import { packJobs, packResults, unpackJobs, unpackResults } from "./signing-wire.ts";
import { IdlePreparation, JOB_KIND, type JobKind, SigningWork } from "./signing-work.ts";

const keyOf = (index: number): Uint8Array => privateKeyFromSecret(Buffer.from(`threads ${index}`));
const members = [0, 1, 2].map((i) => cosmosPublicKey(keyOf(i)));
const pair = members.slice(0, 2);
const digestOf = (i: number): Uint8Array => createHash("sha256").update(`relay ${i}`).digest();
const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const script = (code: string): URL => new URL(`data:text/javascript,${encodeURIComponent(code)}`);
/** Answers nothing, and ends when it is asked to. */
const SILENT = script(
  "import { parentPort } from 'node:worker_threads'; parentPort.on('message', (m) => 'close' in m && process.exit());",
);
const DYING = new URL("../../test/dying-thread.ts", import.meta.url);
const LETHAL = Uint8Array.from([...new Uint8Array(30), 0xde, 0xad]);

function signatureOf(signed: Signed): Uint8Array {
  assert.ok(signed.ok, signed.ok ? "" : signed.fault);
  return signed.signature;
}

/** Runs on a thread what the event loop would make by itself: another comes first in the same turn. */
function onThread<T>(signing: SigningThreads, run: () => Promise<T>): Promise<T> {
  void signing.ecdsaVerify(digestOf(0), new Uint8Array(64), members[0] ?? new Uint8Array(33));
  return run();
}

for (const threads of [0, 1, 2]) {
  suite(`signing with ${threads} threads`, () => {
    test("ring signatures of several rings at once hold, and bad ones do not", async () => {
      await using signing = new SigningThreads({ threads });
      using two = signing.openRing({ members: pair, key: keyOf(0) });
      using three = signing.openRing({ members, key: keyOf(2) });
      const rings = new Rings();
      await Promise.all(
        numbers(60).map(async (i) => {
          const [ring, allowed] = i % 2 === 0 ? [two, pair] : [three, members];
          const signature = signatureOf(await signing.ringSign(ring, digestOf(i)));
          assert.ok(rings.verifyWithin(digestOf(i), signature, allowed).ok);
          const verdict = await signing.ringVerify(digestOf(i), signature, allowed);
          assert.deepEqual(verdict, rings.verifyWithin(digestOf(i), signature, allowed));
          const other = await signing.ringVerify(digestOf(i + 1), signature, allowed);
          assert.deepEqual(other, { ok: false, fault: "signature" });
          const behind = concatBytes(signature, Uint8Array.of(1, 2, 3));
          assert.ok((await signing.ringVerify(digestOf(i), behind, allowed)).ok);
        }),
      );
    });

    test("ECDSA signatures are those of cosmosSign, and bad ones do not hold", async () => {
      await using signing = new SigningThreads({ threads });
      using key = signing.openKey(keyOf(1));
      const publicKey = cosmosPublicKey(keyOf(1));
      await Promise.all(
        numbers(40).map(async (i) => {
          const signature = signatureOf(await signing.ecdsaSign(key, digestOf(i)));
          assert.deepEqual(Buffer.from(signature), Buffer.from(cosmosSign(digestOf(i), keyOf(1))));
          assert.ok(cosmosVerify(digestOf(i), signature, publicKey));
          assert.deepEqual(await signing.ecdsaVerify(digestOf(i), signature, publicKey), { ok: true });
          const bad = [
            [digestOf(i + 1), signature, publicKey],
            [digestOf(i), signature, members[2] ?? publicKey],
            [digestOf(i), signature.subarray(1), publicKey],
            [digestOf(i), signature, publicKey.subarray(1)],
            [digestOf(i), new Uint8Array(64), publicKey],
            [digestOf(i), signature, new Uint8Array(33)],
          ] as const;
          for (const [message, bytes, by] of bad) {
            assert.deepEqual(await signing.ecdsaVerify(message, bytes, by), { ok: false, fault: "signature" });
          }
        }),
      );
    });

    test("attack: no nonce is used twice, with many signatures of one digest at once", async () => {
      await using signing = new SigningThreads({ threads });
      using ring = signing.openRing({ members: pair, key: keyOf(0) });
      const nonces = new Set<string>();
      for (let round = 0; round < 3; round++) {
        const signed = await Promise.all(numbers(50).map(() => signing.ringSign(ring, digestOf(1))));
        for (const one of signed) nonces.add(nonceOf(signatureOf(one), digestOf(1), keyOf(0)));
      }
      assert.equal(nonces.size, 150);
    });

    test("attack: non-members, malformed bytes and junk are refused and nothing throws", async () => {
      await using signing = new SigningThreads({ threads });
      using ring = signing.openRing({ members: pair, key: keyOf(0) });
      const signature = signatureOf(await signing.ringSign(ring, digestOf(1)));
      assert.deepEqual(await signing.ringVerify(digestOf(1), signature, pair.slice(1)), {
        ok: false,
        fault: "non-member",
      });
      for (const bytes of [signature.subarray(0, 198), new Uint8Array(0), new Uint8Array(199)]) {
        assert.deepEqual(await signing.ringVerify(digestOf(1), bytes, pair), { ok: false, fault: "malformed" });
      }
      assert.deepEqual(await signing.ringVerify(digestOf(1).subarray(1), signature, pair), {
        ok: false,
        fault: "malformed",
      });
      assert.deepEqual(await signing.ringSign(ring, digestOf(1).subarray(1)), { ok: false, fault: "failed" });
      const noPoints = Uint8Array.from(signature).fill(9, 36, 69);
      assert.deepEqual(await signing.ringVerify(digestOf(1), noPoints, pair), { ok: false, fault: "signature" });
    });

    test("a handle that is disposed signs no more, nor does one of another kind", async () => {
      await using signing = new SigningThreads({ threads });
      const ring = signing.openRing({ members: pair, key: keyOf(0) });
      const key = signing.openKey(keyOf(0));
      assert.deepEqual(await signing.ringSign(key, digestOf(1)), { ok: false, fault: "failed" });
      assert.deepEqual(await signing.ecdsaSign(ring, digestOf(1)), { ok: false, fault: "failed" });
      ring[Symbol.dispose]();
      key[Symbol.dispose]();
      assert.deepEqual(await signing.ringSign(ring, digestOf(1)), { ok: false, fault: "failed" });
      assert.deepEqual(await signing.ecdsaSign(key, digestOf(1)), { ok: false, fault: "failed" });
    });

    test("a handle that is disposed while it signs ends its signatures, and is wiped then", async () => {
      await using signing = new SigningThreads({ threads });
      const ring = signing.openRing({ members: pair, key: keyOf(0) });
      const key = signing.openKey(keyOf(1));
      const ringSignatures = numbers(40).map((i) => signing.ringSign(ring, digestOf(i)));
      const keySignatures = numbers(40).map((i) => signing.ecdsaSign(key, digestOf(i)));
      ring[Symbol.dispose]();
      key[Symbol.dispose]();
      assert.deepEqual(await signing.ringSign(ring, digestOf(1)), { ok: false, fault: "failed" });
      for (const [i, signed] of (await Promise.all(ringSignatures)).entries()) {
        assert.ok(new Rings().verifyWithin(digestOf(i), signatureOf(signed), pair).ok);
      }
      for (const signed of await Promise.all(keySignatures)) signatureOf(signed);
      ring[Symbol.dispose]();
      assert.deepEqual(await signing.ringSign(ring, digestOf(1)), { ok: false, fault: "failed" });
      assert.deepEqual(await signing.ecdsaSign(key, digestOf(1)), { ok: false, fault: "failed" });
    });

    test("the caller may wipe the key that it passed", async () => {
      await using signing = new SigningThreads({ threads });
      const secret = Uint8Array.from(keyOf(0));
      using ring = signing.openRing({ members: pair, key: secret });
      using key = signing.openKey(secret);
      secret.fill(0);
      const signature = signatureOf(await signing.ringSign(ring, digestOf(1)));
      assert.ok(new Rings().verifyWithin(digestOf(1), signature, pair).ok);
      assert.ok(cosmosVerify(digestOf(2), signatureOf(await signing.ecdsaSign(key, digestOf(2))), pair[0] ?? secret));
    });

    test("wrong keys and rings are refused when they are opened", async () => {
      await using signing = new SigningThreads({ threads });
      assert.throws(() => signing.openRing({ members, key: keyOf(7) }), { code: "CONFIG_INVALID" });
      assert.throws(() => signing.openRing({ members: pair.slice(1), key: keyOf(1) }), { code: "INTERNAL" });
      assert.throws(() => signing.openKey(new Uint8Array(32)), { code: "CONFIG_INVALID" });
    });

    test("nothing is signed or checked any more when it is disposed", async () => {
      const signing = new SigningThreads({ threads });
      const ring = signing.openRing({ members: pair, key: keyOf(0) });
      const signature = signatureOf(await signing.ringSign(ring, digestOf(1)));
      await signing[Symbol.asyncDispose]();
      assert.deepEqual(await signing.ringSign(ring, digestOf(1)), { ok: false, fault: "closed" });
      assert.deepEqual(await signing.ringVerify(digestOf(1), signature, pair), { ok: false, fault: "closed" });
    });
  });
}

suite("signing threads", () => {
  test("signatures beyond the queue are refused, and the others are made", async () => {
    await using signing = new SigningThreads({ threads: 1, maxQueued: 5 });
    using ring = signing.openRing({ members: pair, key: keyOf(0) });
    const signed = await Promise.all(numbers(8).map((i) => signing.ringSign(ring, digestOf(i))));
    assert.deepEqual(
      signed.map((one) => (one.ok ? "made" : one.fault)),
      // The first of a turn is made by the event loop.
      [...numbers(6).map(() => "made"), ...numbers(2).map(() => "overloaded")],
    );
  });

  test("one signature at a time is made at once, without a thread, and one of a turn while threads are idle", async () => {
    const queued: number[] = [];
    await using signing = new SigningThreads({ threads: 1, script: SILENT }, { queued: (jobs) => queued.push(jobs) });
    using ring = signing.openRing({ members: pair, key: keyOf(0) });
    for (let i = 0; i < 3; i++) {
      assert.ok((await signing.ringSign(ring, digestOf(i))).ok);
      await new Promise(setImmediate);
    }
    assert.deepEqual(queued, []);
    const first = signing.ringSign(ring, digestOf(3));
    const second = signing.ringSign(ring, digestOf(4));
    assert.ok((await first).ok);
    await new Promise(setImmediate);
    assert.deepEqual(queued, [1]);
    // The thread has work: what comes goes to it.
    const third = signing.ringSign(ring, digestOf(5));
    await signing[Symbol.asyncDispose]();
    assert.deepEqual(await Promise.all([second, third]), [
      { ok: false, fault: "closed" },
      { ok: false, fault: "closed" },
    ]);
  });

  test("attack: the event loop neither checks nor signs for a large ring, also while the threads are idle", async () => {
    const queued: number[] = [];
    await using signing = new SigningThreads({ threads: 1, script: SILENT }, { queued: (jobs) => queued.push(jobs) });
    // Members may be repeated, as the chain has it.
    const many = Array.from({ length: 256 }, () => members[0] ?? new Uint8Array(0));
    const junk = new Uint8Array(69 + 65 * many.length);
    new DataView(junk.buffer).setUint32(0, many.length);
    for (const [at, member] of many.entries()) junk.set(member, 69 + 65 * at + 32);
    const checked = signing.ringVerify(digestOf(1), junk, pair);
    await new Promise(setImmediate);
    assert.deepEqual(queued, [1]);
    using ring = signing.openRing({ members: [...members, ...pair], key: keyOf(0) });
    const signed = signing.ringSign(ring, digestOf(1));
    await signing[Symbol.asyncDispose]();
    const closed = { ok: false, fault: "closed" };
    assert.deepEqual(await Promise.all([checked, signed]), [closed, closed]);
  });

  test("a large ring is signed for by the threads while they are idle", async () => {
    const queued: number[] = [];
    await using signing = new SigningThreads({ threads: 1 }, { queued: (jobs) => queued.push(jobs) });
    using ring = signing.openRing({ members: [...members, ...pair], key: keyOf(0) });
    assert.ok((await signing.ringSign(ring, digestOf(1))).ok);
    assert.ok(queued.includes(1));
  });

  test("attack: a thread that dies fails its signatures as values, and the next one has the keys", async () => {
    let exits = 0;
    await using signing = new SigningThreads(
      { threads: 1, script: DYING, restartMs: -1 },
      { exited: () => void exits++ },
    );
    using ring = signing.openRing({ members: pair, key: keyOf(0) });
    const closed = signing.openRing({ members, key: keyOf(0) });
    closed[Symbol.dispose]();
    for (let round = 1; round <= 2; round++) {
      const signature = signatureOf(await onThread(signing, () => signing.ringSign(ring, digestOf(round))));
      assert.ok(new Rings().verifyWithin(digestOf(round), signature, pair).ok);
      const lethal = await onThread(signing, () => signing.ringSign(ring, LETHAL));
      assert.deepEqual(lethal, { ok: false, fault: "lost" });
      assert.equal(exits, round);
    }
    const unknown = await onThread(signing, () => signing.ringSign(closed, digestOf(1)));
    assert.deepEqual(unknown, { ok: false, fault: "failed" });
  });

  test("attack: a thread that does not answer makes signatures late, not forever", async () => {
    const clock = virtualClock();
    let exits = 0;
    await using signing = new SigningThreads(
      {
        threads: 1,
        script: SILENT,
      },
      { clock, exited: () => void exits++ },
    );
    using ring = signing.openRing({ members: pair, key: keyOf(0) });
    const signed = onThread(signing, () => signing.ringSign(ring, digestOf(1)));
    await new Promise(setImmediate);
    clock.advance(10_000);
    assert.deepEqual(await signed, { ok: false, fault: "late" });
    await eventually("the thread is replaced", () => exits === 1);
  });

  test("attack: closing in the middle of signatures ends the threads, and not the process with them", async () => {
    // A thread that is terminated while native code calls back aborts the process.
    for (let round = 0; round < 12; round++) {
      const signing = new SigningThreads({ threads: 2 });
      const ring = signing.openRing({ members: pair, key: keyOf(0) });
      assert.ok((await onThread(signing, () => signing.ringSign(ring, digestOf(round)))).ok);
      const signed = numbers(40).map((i) => signing.ringSign(ring, digestOf(i)));
      await Promise.race(signed);
      await signing[Symbol.asyncDispose]();
      for (const one of await Promise.all(signed)) assert.ok(one.ok || one.fault === "closed");
    }
  });

  test("a ring prepares as many signatures as it made, one at a time when nothing else is to do", async () => {
    using work = new SigningWork();
    using idle = new IdlePreparation(work);
    work.notice({ handle: 1, members: pair, key: keyOf(0) });
    work.notice({ handle: 2, members, key: keyOf(0) });
    assert.equal(work.prepare(), false);
    for (let i = 0; i < 3; i++) {
      work.run({ kind: JOB_KIND.ringSign, handle: 1, digest: digestOf(i), rest: new Uint8Array(0) });
    }
    assert.deepEqual(
      numbers(4).map(() => work.prepare()),
      [true, true, true, false],
    );
    for (let i = 0; i < 40; i++) {
      work.run({ kind: JOB_KIND.ringSign, handle: 1, digest: digestOf(i), rest: new Uint8Array(0) });
    }
    idle.schedule();
    await eventually("16 are prepared", () => !work.prepare());
  });

  test("jobs and results are read as they were written", () => {
    const job = fc
      .tuple(
        fc.integer({ min: 0, max: 3 }),
        fc.nat(2 ** 32 - 1),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.uint8Array({ maxLength: 300 }),
      )
      .map(([kind, handle, digest, rest]) => ({ kind: kind as JobKind, handle, digest, rest }));
    fc.assert(
      fc.property(fc.array(job), (jobs) => {
        assert.deepEqual(unpackJobs(packJobs(jobs)), jobs);
      }),
    );
    fc.assert(
      fc.property(fc.array(fc.option(fc.uint8Array({ minLength: 1 }), { nil: undefined })), (results) => {
        assert.deepEqual(
          unpackResults(packResults(results)),
          results.map((result) => result ?? new Uint8Array(0)),
        );
      }),
    );
  });
});
