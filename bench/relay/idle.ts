import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type ProcessMemory, startChild } from "../lib/child.ts";
import { openFilesLimit } from "../lib/process.ts";
import type { Report } from "../lib/report.ts";
import type { IdleOperations } from "./children/idle-clients.ts";
import { type NodeSide, startBare, startOurs } from "./sides.ts";

/** Descriptors that a process has open for other things. */
const SPARE_FILES = 500;
const SETTLE_MS = 1_000;
/** A client has at most 1,000 WebSockets by default; Linux has all of 127.0.0.0/8. */
const ADDRESSES = Array.from({ length: 20 }, (_, at) => `127.0.0.${at + 2}`);

interface Idle {
  readonly before: ProcessMemory;
  readonly after: ProcessMemory;
}

async function measure(side: NodeSide, clients: number): Promise<Idle> {
  await using child = await startChild<IdleOperations>(join(import.meta.dirname, "children", "idle-clients.ts"));
  const run = { port: side.port, host: side.host, addresses: process.platform === "linux" ? ADDRESSES : [] };
  // What the first connections load is not theirs.
  await child.ask("open", { ...run, clients: Math.min(50, clients) });
  await child.ask("close", undefined);
  await pause(SETTLE_MS / 2);
  const before = await side.memory(true);
  await child.ask("open", { ...run, clients });
  await pause(SETTLE_MS);
  return { before, after: await side.memory(true) };
}

/** Memory of a fresh gateway with many idle WebSocket clients, beside a bare `ws` server with as many. */
export async function benchIdle(wanted: number, backendPort: number): Promise<Report> {
  const clients = Math.min(wanted, openFilesLimit() - SPARE_FILES, process.platform === "linux" ? wanted : 1_000);
  const found: Idle[] = [];
  for (const start of [startOurs, startBare]) {
    await using side = await start(backendPort);
    found.push(await measure(side, clients));
  }
  const [ours, reference] = found.map(({ before, after }) => (after.liveBytes - before.liveBytes) / clients / 1_024);
  const mib = (bytes: number | undefined): string => `${Math.round((bytes ?? Number.NaN) / 1_048_576)} MiB`;
  const text = (idle: Idle | undefined): string =>
    `${mib(idle?.before.rssBytes)} before, ${mib(idle?.after.rssBytes)} with them`;
  const few =
    clients < wanted ? ` (not ${wanted}: the limit of open files, or this system's addresses, forbids it)` : "";
  return {
    rows: [
      {
        name: "relay.idle-memory",
        title: `memory of one idle WebSocket client, of ${clients}`,
        ours: { value: ours ?? Number.NaN, unit: "KiB" },
        reference: { value: reference ?? Number.NaN, unit: "KiB" },
        ratioOf: "ours / reference",
      },
    ],
    notes: [
      `idle: ${clients} WebSocket clients${few}; of each what its objects and buffers take after a collection of garbage; resident memory of our gateway ${text(found[0])}; of a bare \`ws\` server ${text(found[1])}`,
    ],
  };
}
