import assert from "node:assert/strict";
import { once } from "node:events";
import { suite, test } from "node:test";
import { Worker } from "node:worker_threads";
import { CLIENT_MISTAKES } from "./client-mistakes.ts";
import { redirectJournalToMemory } from "./memory-redirect.ts";
import type { NoticedMistake } from "./mistake-worker.ts";

redirectJournalToMemory();
const { runStory } = await import("./buyer-story.ts");

const STORIES = 200;
/** Stories in which a mistake must be noticed. */
const NOTICED_WITHIN = 300;

suite("stories of a buyer, a seller, two nodes, kills and clocks", () => {
  test("no story has two transfers for one call, a charge that no result names, or more than the cap", async (t) => {
    const counts = new Map<string, number>();
    for (let n = 0; n < STORIES; n++) {
      const story = await runStory(`1/${n}`);
      assert.deepEqual(story.faults, [], `story ${story.seed}:\n${story.trace.join("\n")}`);
      for (const [name, count] of story.counts) counts.set(name, (counts.get(name) ?? 0) + count);
    }
    for (const name of ["signatures", "transfers", "losses of power", "result: bought, charged", "honest: sold"]) {
      assert.ok((counts.get(name) ?? 0) > 50, `${name}: ${counts.get(name) ?? 0}`);
    }
    t.diagnostic(`${counts.get("signatures") ?? 0} signatures, ${counts.get("transfers") ?? 0} transfers`);
  });

  test("a story is the same each time", async () => {
    for (let n = 0; n < 10; n++) {
      const [one, other] = [await runStory(`2/${n}`), await runStory(`2/${n}`)];
      assert.deepEqual(withoutNonces(one.trace), withoutNonces(other.trace));
    }
  });

  for (const mistake of Object.keys(CLIENT_MISTAKES)) {
    test(`the stories notice a client in which ${mistake}`, async (t) => {
      const workerData = { mistake, seed: "1", stories: NOTICED_WITHIN };
      const worker = new Worker(new URL("mistake-worker.ts", import.meta.url), { workerData });
      const [notice] = (await once(worker, "message")) as [NoticedMistake | undefined];
      await worker.terminate();
      assert.ok(notice !== undefined);
      t.diagnostic(`story ${notice.seed}: ${notice.fault}`);
    });
  }
});

const withoutNonces = (trace: readonly string[]): string[] =>
  trace.map((line) => line.replace(/nonce 0x[0-9a-f]+/, ""));
