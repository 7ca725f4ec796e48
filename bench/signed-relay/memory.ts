import { join } from "node:path";
import type { BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { Report } from "../lib/report.ts";
import type { RelayMemoryOperations } from "./children/relay-memory.ts";

const MIB = 1_048_576;
const RELAYS = 100_000;
const FILE = join(import.meta.dirname, "children", "relay-memory.ts");

async function growth(child: Child<RelayMemoryOperations>, work: () => Promise<unknown>) {
  const before = await child.memory(true);
  await work();
  const after = await child.memory(true);
  return { live: after.liveBytes - before.liveBytes, rss: after.rssBytes - before.rssBytes };
}

/** Memory that a supplier needs for what it has mined in a session, beside a map and a set of hashes. */
export async function memoryReport({ quick }: BenchOptions): Promise<Report> {
  const relays = quick ? RELAYS / 10 : RELAYS;
  const scale = RELAYS / relays / MIB;
  await using ours = await startChild<RelayMemoryOperations>(FILE);
  await ours.ask("open", undefined);
  let bytes = 0;
  const cpuBefore = await ours.cpuMicros();
  const mined = await growth(ours, async () => {
    bytes = await ours.ask("append", { relays });
  });
  const appendCpu = ((await ours.cpuMicros()) - cpuBefore) / relays;
  const sealCpuBefore = await ours.cpuMicros();
  const sealed = await growth(ours, () => ours.ask("seal", undefined));
  const sealCpu = ((await ours.cpuMicros()) - sealCpuBefore) / relays;
  await using least = await startChild<RelayMemoryOperations>(FILE);
  const kept = await growth(least, () => least.ask("keepNames", { relays }));
  return {
    rows: [
      {
        name: "signed-relay.memory",
        title: "memory of 100,000 mined relays",
        ours: { value: (mined.live + sealed.live) * scale, unit: "MiB" },
        reference: { value: kept.live * scale, unit: "MiB" },
        ratioOf: "ours / reference",
      },
    ],
    notes: [
      `memory: ${relays} relays of ${Math.round(bytes)} bytes appended to one session's evidence in a process of its own, with the names of their requests; objects and buffers after a collection of garbage. When mined ${(mined.live * scale).toFixed(1)} MiB per 100,000 (resident ${(mined.rss * scale).toFixed(1)} MiB more), when sealed ${(sealed.live * scale).toFixed(1)} MiB more. The reference keeps a hash and a place of each relay and a name of its request in a map and a set, and can prove nothing. CPU of making, writing down and inserting a relay ${appendCpu.toFixed(1)} µs, of its part of the root ${sealCpu.toFixed(1)} µs.`,
    ],
  };
}
