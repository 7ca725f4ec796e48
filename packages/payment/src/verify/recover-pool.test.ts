import assert from "node:assert/strict";
import { test } from "node:test";
import { noMetrics, silentLog } from "@turnpike/base";
import { privateKeyToAddress, sha256, sign } from "@turnpike/crypto";
import { RecoverPool } from "./recover-pool.ts";

const modules = { log: silentLog, metrics: noMetrics };

function job(n: number): { digest: Uint8Array; signature: Uint8Array; address: string } {
  const digest = sha256(Uint8Array.of(n >> 8, n & 255));
  const key = sha256(digest);
  const { r, s, yParity } = sign(digest, key);
  return { digest, signature: Buffer.concat([r, s, Uint8Array.of(27 + yParity)]), address: privateKeyToAddress(key) };
}
const script = (code: string): URL => new URL(`data:text/javascript,${encodeURIComponent(code)}`);

for (const workers of [0, 1, 2]) {
  test(`${workers} threads give each signature its signer`, async () => {
    await using pool = new RecoverPool({ workers }, modules);
    const jobs = Array.from({ length: 100 }, (_, n) => job(n));
    const signers = await Promise.all(jobs.map(({ digest, signature }) => pool.recover(digest, signature)));
    assert.deepEqual(
      signers,
      jobs.map(({ address }) => address),
    );
    const { digest, signature } = job(1);
    assert.equal(await pool.recover(digest, Buffer.alloc(65)), undefined);
    assert.equal(await pool.recover(digest, signature.subarray(0, 64)), undefined);
    assert.equal(await pool.recover(digest.subarray(1), signature), undefined);
  });
}

test("signatures beyond the queue are refused", async () => {
  await using pool = new RecoverPool({ workers: 1, maxQueued: 10 }, modules);
  const { digest, signature, address } = job(1);
  const runs = Array.from({ length: 15 }, () => pool.recover(digest, signature));
  const results = await Promise.allSettled(runs);
  assert.equal(results.filter((r) => r.status === "fulfilled" && r.value === address).length, 10);
  const refused = results.flatMap((r) => (r.status === "rejected" ? [r.reason as { code: string }] : []));
  assert.deepEqual(
    refused.map(({ code }) => code),
    Array.from({ length: 5 }, () => "OVERLOADED"),
  );
  assert.equal(await pool.recover(digest, signature), address);
});

test("a thread that dies fails what it had, and another takes its place", async () => {
  const exits: string[] = [];
  const metrics = { ...noMetrics, count: (spec: { name: string }) => void exits.push(spec.name) };
  const die = script(
    "import {parentPort} from 'node:worker_threads'; parentPort.on('message', () => process.exit(1));",
  );
  await using pool = new RecoverPool({ workers: 1, script: die, restartMs: 0 }, { log: silentLog, metrics });
  const { digest, signature } = job(1);
  for (let round = 1; round <= 3; round++) {
    await assert.rejects(pool.recover(digest, signature), { code: "SETTLEMENT_UNAVAILABLE" });
    assert.equal(exits.length, round);
  }
});

test("nothing hangs when the pool ends with work in hand", async () => {
  const pool = new RecoverPool({ workers: 1, script: script("import 'node:worker_threads'") }, modules);
  const { digest, signature } = job(1);
  const run = assert.rejects(pool.recover(digest, signature), { code: "SETTLEMENT_UNAVAILABLE" });
  await pool[Symbol.asyncDispose]();
  await run;
  await assert.rejects(pool.recover(digest, signature), { code: "SETTLEMENT_UNAVAILABLE" });
});
