import { parentPort } from "node:worker_threads";
import { redirectJournalToMemory } from "../../../packages/client/test/stories/memory-redirect.ts";

redirectJournalToMemory();
const { runStory, shrinkStory } = await import("../../../packages/client/test/stories/buyer-story.ts");

/** Stories of one seed: their own are `seed/first` and those that follow. */
export interface StoriesTask {
  readonly seed: string;
  readonly first: number;
  readonly count: number;
}

/** A story that failed, with as little in it as its failure needs. */
export interface FailedStory {
  readonly seed: string;
  readonly fault: string;
  /** Faults of the world that it fails without. */
  readonly without: readonly string[];
  readonly trace: readonly string[];
}

export interface StoriesResult {
  readonly stories: number;
  readonly counts: readonly (readonly [string, number])[];
  readonly failures: readonly FailedStory[];
}

async function runTask({ seed, first, count }: StoriesTask): Promise<StoriesResult> {
  const counts = new Map<string, number>();
  const failures: FailedStory[] = [];
  for (let n = first; n < first + count; n++) {
    const story = await runStory(`${seed}/${n}`);
    for (const [name, times] of story.counts) counts.set(name, (counts.get(name) ?? 0) + times);
    const [fault] = story.faults;
    if (fault === undefined) continue;
    const { without, trace } = await shrinkStory(story.seed);
    failures.push({ seed: story.seed, fault, without, trace });
  }
  return { stories: count, counts: [...counts], failures };
}

parentPort?.on("message", (task: StoriesTask) => {
  void runTask(task).then((result) => parentPort?.postMessage(result));
});
