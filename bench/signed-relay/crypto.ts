import { createHash } from "node:crypto";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { AppError } from "@turnpike/base";
import {
  cosmosPublicKey,
  cosmosSign,
  cosmosVerify,
  privateKeyFromSecret,
  RingSigner,
  Rings,
  type Signed,
  SigningThreads,
} from "@turnpike/crypto";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report, Row } from "../lib/report.ts";
import { median, quantile } from "../lib/stats.ts";

const secrets = [0, 1].map((i) => privateKeyFromSecret(Buffer.from(`signed relay ${i}`)));
const members = secrets.map(cosmosPublicKey);
const secret = secrets[0] ?? new Uint8Array(32);
const publicKey = members[0] ?? new Uint8Array(33);
const digestOf = (i: number): Uint8Array => createHash("sha256").update(`bench ${i}`).digest();

/** Signatures under way at once where throughput is measured. */
const UNDER_WAY = 32;
/** Signatures a second where waiting is measured: a part of what one core can do. */
const RATE = 400;

function hold(good: boolean): void {
  if (!good) throw new AppError("INTERNAL", { message: "A signature was not made, or does not hold." });
}

function signatureOf(signed: Signed): Uint8Array {
  if (signed.ok) return signed.signature;
  throw new AppError("INTERNAL", { message: `A signature was not made: ${signed.fault}.` });
}

/** CPU of all threads of this process for one of `count`, in microseconds. */
async function microsOf(count: number, work: () => void | Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

/** Runs `count` jobs, some of them at once; a turn of the event loop before each, as a request has it. */
async function atOnce(count: number, job: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const runner = async (): Promise<void> => {
    while (next < count) {
      const i = next++;
      await new Promise(setImmediate);
      await job(i);
    }
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, runner));
}

interface Waiting {
  readonly p50Micros: number;
  readonly p99Micros: number;
  readonly loopP50Ms: number;
  readonly loopP99Ms: number;
}

/** Time of a job, by what was due: `RATE` a second, whatever came of those before. */
async function waiting(seconds: number, job: (i: number) => Promise<void>): Promise<Waiting> {
  const micros: number[] = [];
  const jobs: Promise<void>[] = [];
  const loop = monitorEventLoopDelay({ resolution: 1 });
  const startMs = performance.now();
  loop.enable();
  for (let i = 0; i < seconds * RATE; ) {
    const due = Math.floor(((performance.now() - startMs) / 1_000) * RATE);
    for (; i < Math.min(due, seconds * RATE); i++) {
      const beganMs = performance.now();
      jobs.push(job(i).then(() => void micros.push((performance.now() - beganMs) * 1_000)));
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(jobs);
  loop.disable();
  return {
    p50Micros: quantile(micros, 0.5),
    p99Micros: quantile(micros, 0.99),
    loopP50Ms: loop.percentile(50) / 1e6,
    loopP99Ms: loop.percentile(99) / 1e6,
  };
}

/** Time of a job that runs alone: one client, who waits for each answer. */
async function alone(count: number, job: (i: number) => Promise<void>): Promise<number> {
  const micros: number[] = [];
  for (let i = 0; i < count; i++) {
    // Time enough to prepare the next one.
    await new Promise((resolve) => setTimeout(resolve, 2));
    const beganMs = performance.now();
    await job(i);
    micros.push((performance.now() - beganMs) * 1_000);
  }
  return median(micros);
}

function row(name: string, title: string, ours: readonly number[], reference: readonly number[]): Row {
  return {
    name: `signed-relay.${name}`,
    title,
    ours: { value: median(ours), unit: "µs" },
    reference: { value: median(reference), unit: "µs" },
    ratioOf: "reference / ours",
    ratio: median(ours.map((value, i) => (reference[i] ?? Number.NaN) / value)),
  };
}

type Figures = Record<"sign" | "prepared" | "whole" | "verify" | "ecdsaSign" | "ecdsaVerify", number[]>;

/** CPU of signing and checking: inline, prepared, and through threads, each beside the plain way of the same round. */
export async function cryptoReport({ quick, progress }: BenchOptions): Promise<Report> {
  const [count, rounds, seconds] = quick ? [64, 3, 0.5] : [512, 7, 3];
  const rings = new Rings();
  const plain: Figures = { sign: [], prepared: [], whole: [], verify: [], ecdsaSign: [], ecdsaVerify: [] };
  const signatures = Array.from({ length: count }, (_, i) => rings.sign(digestOf(i), members, secret));
  const ecdsa = Array.from({ length: count }, (_, i) => cosmosSign(digestOf(i), secret));
  const each = (job: (i: number) => void) => (): void => {
    for (let i = 0; i < count; i++) job(i);
  };
  const plainRound = async (): Promise<void> => {
    plain.sign.push(
      await microsOf(
        count,
        each((i) => void rings.sign(digestOf(i), members, secret)),
      ),
    );
    plain.verify.push(
      await microsOf(
        count,
        each((i) => hold(rings.verifyWithin(digestOf(i), signatures[i] ?? secret, members).ok)),
      ),
    );
    plain.ecdsaSign.push(
      await microsOf(
        count,
        each((i) => void cosmosSign(digestOf(i), secret)),
      ),
    );
    plain.ecdsaVerify.push(
      await microsOf(
        count,
        each((i) => hold(cosmosVerify(digestOf(i), ecdsa[i] ?? secret, publicKey))),
      ),
    );
    using signer = new RingSigner({ members, key: secret, maxPrepared: 2 * count });
    const before = await microsOf(count, () => signer.prepare(count));
    const after = await microsOf(
      count,
      each((i) => void signer.sign(digestOf(i))),
    );
    plain.prepared.push(after);
    plain.whole.push(before + after);
  };
  const rows: Row[] = [];
  const lines: string[][] = [];
  const ways = [0, 1, 2].map((threads) => ({
    threads,
    sign: [] as number[],
    verify: [] as number[],
    ecdsaSign: [] as number[],
    ecdsaVerify: [] as number[],
    alone: [] as number[],
    waiting: [] as Waiting[],
  }));
  for (let round = 0; round < rounds; round++) {
    progress(`round ${round + 1} of ${rounds}`);
    await plainRound();
    for (const way of ways) {
      await using signing = new SigningThreads({ threads: way.threads });
      using ring = signing.openRing({ members, key: secret });
      using key = signing.openKey(secret);
      const jobs = {
        sign: async (i: number) => void signatureOf(await signing.ringSign(ring, digestOf(i))),
        verify: async (i: number) =>
          hold((await signing.ringVerify(digestOf(i), signatures[i % count] ?? secret, members)).ok),
        ecdsaSign: async (i: number) => void signatureOf(await signing.ecdsaSign(key, digestOf(i))),
        ecdsaVerify: async (i: number) =>
          hold((await signing.ecdsaVerify(digestOf(i), ecdsa[i % count] ?? secret, publicKey)).ok),
      };
      // The threads start, and each prepares what it will use.
      await atOnce(4 * UNDER_WAY, jobs.sign);
      for (const name of ["sign", "verify", "ecdsaSign", "ecdsaVerify"] as const) {
        way[name].push(await microsOf(count, () => atOnce(count, jobs[name])));
      }
      way.alone.push(await alone(count >> 3, jobs.sign));
      if (round < 3) way.waiting.push(await waiting(seconds, jobs.sign));
    }
  }
  rows.push(row("sign-prepared", "ring of 2, sign what is prepared, CPU", plain.prepared, plain.sign));
  rows.push(row("sign-whole", "the same with preparing it, CPU", plain.whole, plain.sign));
  for (const way of ways) {
    const where = way.threads === 0 ? "inline" : `${way.threads} thread${way.threads === 1 ? "" : "s"}`;
    const suffix = way.threads === 0 ? "inline" : `threads-${way.threads}`;
    rows.push(row(`sign-${suffix}`, `ring of 2, sign ${where}, CPU`, way.sign, plain.sign));
    rows.push(row(`verify-${suffix}`, `ring of 2, verify ${where}, CPU`, way.verify, plain.verify));
    rows.push(row(`ecdsa-sign-${suffix}`, `ECDSA, sign ${where}, CPU`, way.ecdsaSign, plain.ecdsaSign));
    rows.push(row(`ecdsa-verify-${suffix}`, `ECDSA, verify ${where}, CPU`, way.ecdsaVerify, plain.ecdsaVerify));
    const of = (pick: (one: Waiting) => number): string => median(way.waiting.map(pick)).toFixed(2);
    lines.push([
      where,
      (median(way.alone) / 1_000).toFixed(2),
      of(({ p50Micros }) => p50Micros / 1_000),
      of(({ p99Micros }) => p99Micros / 1_000),
      of(({ loopP50Ms }) => loopP50Ms),
      of(({ loopP99Ms }) => loopP99Ms),
    ]);
  }
  return {
    rows,
    tables: [
      {
        title: `waiting for a ring signature, ms; ${RATE} a second but for one client, who asks again after each answer`,
        head: ["where", "one client p50", "p50", "p99", "event loop p50", "event loop p99"],
        lines,
      },
    ],
    notes: [
      `The reference is Rings.sign, Rings.verifyWithin, cosmosSign and cosmosVerify of the same round; CPU is that of all threads, with ${UNDER_WAY} signatures under way.`,
      "The event loop's delay has the period of its timer, 1 ms, in it.",
    ],
  };
}
