import { randomInt } from "node:crypto";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import type { FailedStory, StoriesResult, StoriesTask } from "./stories-worker.ts";

const WORKER_FILE = new URL("./stories-worker.ts", import.meta.url);
const SHORT_SEED = "1";
const SHORT_STORIES = 400;
const FULL_STORIES = 10_000;
const PER_TASK = 50;
const MAX_WORKERS = 8;
/** Maximum failures that are printed; the others are counted. */
const MAX_PRINTED = 5;

function* tasksOf(seed: string, stories: number, endMs: number): Generator<StoriesTask> {
  for (let first = 0; first < stories && performance.now() < endMs; first += PER_TASK) {
    yield { seed, first, count: Math.min(PER_TASK, stories - first) };
  }
}

/** Runs tasks in threads, each of which has the client with a disk in memory, until none is left. */
async function runTasks(tasks: Iterator<StoriesTask>, take: (result: StoriesResult) => void): Promise<void> {
  const runOne = async (): Promise<void> => {
    const worker = new Worker(WORKER_FILE);
    try {
      for (let next = tasks.next(); next.done !== true; next = tasks.next()) {
        worker.postMessage(next.value);
        const [result] = (await once(worker, "message")) as [StoriesResult];
        take(result);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(MAX_WORKERS, availableParallelism()) }, runOne));
}

function faultOf({ seed, fault, without, trace }: FailedStory): string {
  return (
    `story ${seed}: ${fault}\nIt fails also without: ${without.join(", ") || "nothing"}. All that happened then:\n` +
    `${trace.join("\n")}\nRun it again: TURNPIKE_CHAOS_STORY=${seed} npm run chaos -- buyer`
  );
}

/** The one story of a seed such as `1/17`. */
function taskOfStory(story: string): StoriesTask {
  const at = story.lastIndexOf("/");
  return { seed: story.slice(0, at), first: Number(story.slice(at + 1)), count: 1 };
}

/**
 * Stories of a buyer whose processes are killed, a seller that is hostile in all modes of the testkit's, two nodes of which one
 * may lie, and clocks that differ. The transfers on the chain are compared with what was signed and reported.
 */
export const stories: ChaosPart = async ({ size, seconds, progress }) => {
  const story = process.env.TURNPIKE_CHAOS_STORY;
  const seed = process.env.TURNPIKE_CHAOS_SEED ?? (size === "short" ? SHORT_SEED : `${randomInt(2 ** 47)}`);
  const usual = size === "short" ? SHORT_STORIES : FULL_STORIES;
  const count = seconds === undefined ? Number(process.env.TURNPIKE_CHAOS_STORIES ?? usual) : Number.MAX_SAFE_INTEGER;
  const endMs = performance.now() + (seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  if (story === undefined) progress(`seed ${seed} (TURNPIKE_CHAOS_SEED=${seed} draws the same stories)`);
  const tasks = story === undefined ? tasksOf(seed, count, endMs) : [taskOfStory(story)].values();
  const counts = new Map<string, number>();
  const failures: FailedStory[] = [];
  let done = 0;
  await runTasks(tasks, (result) => {
    done += result.stories;
    for (const [name, times] of result.counts) counts.set(name, (counts.get(name) ?? 0) + times);
    failures.push(...result.failures);
    progress(`${done} stories, ${failures.length} failures`);
  });
  const figures = [...counts].map(([what, value]): ChaosFigure => ({ what, value, unit: "" }));
  figures.sort((a, b) => a.what.localeCompare(b.what, "en"));
  const total: readonly ChaosFigure[] = [
    { what: "stories", value: done, unit: "" },
    { what: "failures", value: failures.length, unit: "" },
  ];
  return { figures: [...total, ...figures], faults: failures.slice(0, MAX_PRINTED).map(faultOf) };
};
