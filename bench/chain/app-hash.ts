import { hash } from "node:crypto";
import { AppError } from "@turnpike/base";
import { openChainStore, type StateChange } from "@turnpike/chain-store";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { cpuOf, scratchFolder } from "./ground.ts";

const CHANGES = 1_000;
const VALUE_BYTES = 120;
const keyOf = (i: number): Buffer => Buffer.from(`bench/${i.toString().padStart(9, "0")}`);
const valueAt = (i: number, height: bigint): Buffer => Buffer.alloc(VALUE_BYTES, `${i} ${height} `);

/** Bytes of the nodes that change, by the shape that the trie must have. */
function nodeSizes(paths: readonly string[], changed: readonly string[]): number[] {
  const sorted = paths.toSorted();
  const sizes: number[] = [];
  const inRange = (list: readonly string[], prefix: string): string[] => {
    const place = (text: string): number => {
      let [low, high] = [0, list.length];
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((list[middle] ?? "") < text) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    return list.slice(place(prefix), place(`${prefix}~`));
  };
  const walk = (all: readonly string[], some: readonly string[], depth: number): void => {
    if (all.length < 2 || some.length === 0) return;
    const below = new Set(all.map((path) => path.slice(0, depth + 1)));
    sizes.push(3 + 32 * below.size);
    for (const prefix of new Set(some.map((path) => path.slice(0, depth + 1)))) {
      walk(inRange(all, prefix), inRange(some, prefix), depth + 1);
    }
  };
  walk(sorted, changed.toSorted(), 0);
  return sizes;
}

/** App hash of 1,000 changes of a large state, over the hashes that it is made of. */
export async function appHashReport({ quick }: BenchOptions): Promise<Report> {
  const [entries, rounds] = quick ? [20_000, 5] : [50_000, 9];
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const all = Array.from({ length: entries }, (_, i): StateChange => [keyOf(i), valueAt(i, 0n)]);
  await store.commit({ heightBlocks: 0n, changes: all, records: [] });
  const pathOf = (i: number): string => hash("sha256", keyOf(i), "hex");
  const paths = Array.from({ length: entries }, (_, i) => pathOf(i));
  const ours: number[] = [];
  const commits: number[] = [];
  const floor: number[] = [];
  for (let round = 0; round < rounds + 2; round++) {
    const height = BigInt(round + 1);
    const places = Array.from({ length: CHANGES }, (_, i) => (i * 97 + round * 31) % entries);
    const changes = places.map((i): StateChange => [keyOf(i), valueAt(i, height)]);
    const block = { heightBlocks: height, changes, records: [] };
    const taken = (await cpuOf(() => store.appHashOf(block))) / 1_000;
    const committed = (await cpuOf(() => store.commit(block))) / 1_000;
    const sizes = nodeSizes(paths, places.map(pathOf));
    const nodes = sizes.map((size) => Buffer.alloc(size, round));
    const leaf = Buffer.alloc(65, round);
    const hashes =
      (await cpuOf(() => {
        for (const [key, value] of changes) {
          hash("sha256", key, "latin1");
          hash("sha256", value ?? key, "latin1");
          hash("sha256", leaf, "latin1");
        }
        for (const node of nodes) hash("sha256", node, "latin1");
      })) / 1_000;
    if (round < 2) continue;
    ours.push(taken);
    commits.push(committed);
    floor.push(hashes);
  }
  if (store.latestHeightBlocks() !== BigInt(rounds + 2)) throw new AppError("INTERNAL", { message: "no block" });
  return {
    rows: [
      {
        name: "chain.app-hash",
        title: `app hash of 1,000 changes of ${entries.toLocaleString("en-US")} entries, CPU`,
        ours: { value: median(ours), unit: "ms" },
        reference: { value: median(floor), unit: "ms" },
        ratioOf: "ours / reference",
      },
    ],
    notes: [
      "The reference of the app hash is SHA-256 of the same keys, values, leaves and nodes: no reading, no shape.",
      `Writing such a block, synced to the disk: ${median(commits).toFixed(0)} ms of CPU.`,
    ],
  };
}
