import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import {
  errorText,
  makeGround,
  readHistory,
  runHistory,
  Tally,
} from "../../../packages/chain/test/generated/history.ts";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import { makeGroundOfLimits, runLimits } from "./histories-limits.ts";
import type { HistoriesResult, HistoriesTask, ReportedFailure } from "./histories-worker.ts";

const WORKER_FILE = new URL("./histories-worker.ts", import.meta.url);
const FOLDER = join(import.meta.dirname, "../../../test-results/histories");
const SHORT_SEED = "1";
const SHORT_HISTORIES = 400;
const FULL_HISTORIES = 20_000;
/** Histories that branch off one state, and changed geneses of it. */
const PER_GROUND = 200;
const GENESES_PER_GROUND = 40;
const MAX_WORKERS = 8;

/** Runs tasks in threads until none is left or the time is over. */
async function runTasks(tasks: Iterator<HistoriesTask>, take: (result: HistoriesResult) => void): Promise<void> {
  const runOne = async (): Promise<void> => {
    const worker = new Worker(WORKER_FILE);
    try {
      for (let next = tasks.next(); next.done !== true; next = tasks.next()) {
        worker.postMessage(next.value);
        const [result] = (await once(worker, "message")) as [HistoriesResult];
        take(result);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(MAX_WORKERS, availableParallelism()) }, runOne));
}

function* tasksOf(seed: string, histories: number, endMs: number): Generator<HistoriesTask> {
  for (let first = 0; first < histories && performance.now() < endMs; first += PER_GROUND) {
    const count = Math.min(PER_GROUND, histories - first);
    const geneses = Math.ceil((count * GENESES_PER_GROUND) / PER_GROUND);
    yield { ground: `${seed}/${first / PER_GROUND}`, histories: count, geneses };
  }
}

async function replay(file: string): Promise<readonly string[]> {
  const history = readHistory(await readFile(file, "utf8"));
  const error = runHistory(makeGround(history.ground), history);
  return error === undefined ? [] : [errorText(error)];
}

async function faultOf({ cause, error, json }: ReportedFailure, index: number): Promise<string> {
  const file = join(FOLDER, `${index}.json`);
  await mkdir(FOLDER, { recursive: true });
  await writeFile(file, json);
  return `${cause}\n${error}\nRun it again: TURNPIKE_CHAOS_HISTORY=${file} npm run chaos -- chain --only histories`;
}

/**
 * Random histories of accepted and refused messages with the rest of the chain's life, and changed geneses, each of them a
 * branch of one of many states: no block throws, supplies are exact. Then every message with each part as long as a block
 * may carry.
 */
export const histories: ChaosPart = async ({ size, seconds, progress }) => {
  const file = process.env.TURNPIKE_CHAOS_HISTORY;
  if (file !== undefined) return { figures: [], faults: await replay(file) };
  const seed = process.env.TURNPIKE_CHAOS_SEED ?? (size === "short" ? SHORT_SEED : `${randomInt(2 ** 47)}`);
  const usual = size === "short" ? SHORT_HISTORIES : FULL_HISTORIES;
  const count = seconds === undefined ? Number(process.env.TURNPIKE_CHAOS_HISTORIES ?? usual) : Number.MAX_SAFE_INTEGER;
  progress(`seed ${seed} (TURNPIKE_CHAOS_SEED=${seed} draws the same histories)`);
  const endMs = performance.now() + (seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  const tally = new Tally();
  const failures = new Map<string, ReportedFailure>();
  let failed = 0;
  await runTasks(tasksOf(seed, count, endMs), (result) => {
    tally.add("histories", result.histories);
    tally.add("geneses", result.geneses);
    tally.add("refused geneses", result.refusedGeneses);
    tally.merge(result.counts);
    failed += result.failures.length;
    for (const failure of result.failures) if (!failures.has(failure.cause)) failures.set(failure.cause, failure);
    progress(`${tally.sum("histories")} histories, ${failed} failures of ${failures.size} causes`);
  });
  const limits = runLimits(makeGroundOfLimits(), size);
  const faults = await Promise.all([...failures.values()].map(faultOf));
  const figure = (what: string, value: number, unit = ""): ChaosFigure => ({ what, value, unit });
  return {
    figures: [
      figure("histories", tally.sum("histories")),
      figure("messages accepted", tally.sum("step accepted")),
      figure("messages refused", tally.sum("step refused")),
      figure("claims and proofs of honest suppliers accepted", tally.sum("work accepted")),
      figure("claims settled", tally.sum("pocket.tokenomics.EventClaimSettled")),
      figure("claims expired", tally.sum("pocket.tokenomics.EventClaimExpired")),
      figure("changed geneses", tally.sum("geneses")),
      figure("changed geneses that were refused", tally.sum("refused geneses")),
      figure("failures", failed),
      ...limits.figures,
    ],
    faults: [...faults, ...limits.faults],
  };
};
