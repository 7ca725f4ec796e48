import { parentPort, workerData } from "node:worker_threads";
import { CLIENT_MISTAKES } from "./client-mistakes.ts";
import { redirectJournalToMemory } from "./memory-redirect.ts";

/** First story that shows the mistake; undefined where none of them does. */
export interface NoticedMistake {
  readonly seed: string;
  readonly fault: string;
}

const { mistake, seed, stories } = workerData as {
  readonly mistake: string;
  readonly seed: string;
  readonly stories: number;
};
const { changes = [], fault } = CLIENT_MISTAKES[mistake] ?? {};
redirectJournalToMemory(changes);
const { runStory } = await import("./buyer-story.ts");

async function firstNotice(): Promise<NoticedMistake | undefined> {
  for (let n = 0; n < stories; n++) {
    const story = await runStory(`${seed}/${n}`);
    const text = story.faults.find((one) => fault?.test(one));
    if (text !== undefined) return { seed: story.seed, fault: text };
  }
  return undefined;
}

parentPort?.postMessage(await firstNotice());
