import { writeSync } from "node:fs";
import { join } from "node:path";
import { type FaultPoints, silentLog } from "@turnpike/base";
import { openChainStore, type StateChange } from "@turnpike/chain-store";
import { must } from "@turnpike/testkit/fixtures";
import { makeSnapshot } from "../../src/snapshots/make-snapshot.ts";
import { type SnapshotDraft, SnapshotFolder } from "../../src/snapshots/snapshot-folder.ts";
import { SnapshotRestorer } from "../../src/snapshots/snapshot-restorer.ts";
import { testApp } from "../abci/chain.ts";
import { GENESIS, startNode, type TestNode } from "./snapshots.ts";

/** Bytes of a chunk of the snapshots here: there are some ten. */
export const CHILD_CHUNK_BYTES = 25_000;
const ENTRIES = 4_000;

/** A node whose newest state is of some ten chunks. @returns its height is 4 */
export async function largeNode(path: string): Promise<TestNode> {
  const node = await startNode(path, 3);
  const changes = Array.from({ length: ENTRIES }, (_, n): StateChange => {
    return [Buffer.from(`zz/${n}`), Buffer.from(`${n} `.repeat(12))];
  });
  await node.store.commit({ heightBlocks: 4n, changes, records: [] });
  return node;
}

const say = (text: string): void => void writeSync(1, `${text}\n`);

/** Ends this process at the given reach of a point. */
function killing(point: string, atReach: number): FaultPoints {
  let reached = 0;
  return {
    reach(name) {
      if (name === point && ++reached === atReach) process.kill(process.pid, "SIGKILL");
    },
  };
}

/** Restores the snapshot of another node's folder, and says so; dies before that where it is told to. */
async function restore(path: string, fromPath: string, atReach: number): Promise<void> {
  const faults = killing("chain-store.restored-some", atReach);
  await using store = await openChainStore({ folder: join(path, "store") }, { faults });
  const application = testApp(store);
  const from = new SnapshotFolder({ folder: join(fromPath, "snapshots") }, { log: silentLog });
  await using restorer = new SnapshotRestorer({ genesis: GENESIS }, { store, application, log: silentLog });
  const [snapshot] = await from.list();
  const { appHash, chunks, heightBlocks } = must(snapshot);
  say(await restorer.offer(must(snapshot), appHash));
  for (let chunk = 0; chunk < chunks; chunk++) {
    const packed = must(await from.load(heightBlocks, 1, chunk));
    say((await restorer.apply(chunk, packed, "peer")).result);
  }
  say("restored");
}

/** Reports each chunk that it has written. */
class ReportingFolder extends SnapshotFolder {
  override async draft(heightBlocks: bigint): Promise<SnapshotDraft> {
    const draft = await super.draft(heightBlocks);
    return {
      add: async (chunk) => {
        await draft.add(chunk);
        say(`chunk ${heightBlocks}`);
      },
      finish: (state) => draft.finish(state),
      [Symbol.asyncDispose]: () => draft[Symbol.asyncDispose](),
    };
  }
}

/** Makes snapshots of all heights of a node, again and again, and reports each stage: open, chunk, listed, pruned. */
async function write(path: string): Promise<void> {
  await using store = await openChainStore({ folder: join(path, "store") });
  const folder = new ReportingFolder({ folder: join(path, "snapshots") }, { log: silentLog });
  await folder.removeLeftovers();
  say("open");
  for (;;) {
    for (const heightBlocks of [1n, 2n, 3n, 4n]) {
      await makeSnapshot({ heightBlocks, chunkBytes: CHILD_CHUNK_BYTES }, { store, folder });
      say(`listed ${heightBlocks}`);
      await folder.keepNewest(2);
      say(`pruned ${heightBlocks}`);
    }
  }
}

const [, script, mode, path = "", fromPath = "", atReach = "0"] = process.argv;
if (script !== undefined && import.meta.filename === script) {
  await (mode === "write" ? write(path) : restore(path, fromPath, Number(atReach)));
}
