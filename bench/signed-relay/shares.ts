import type { ProfiledTime } from "../lib/observer.ts";
import type { Table } from "../lib/report.ts";

/** Kinds of work by the file that it is in; the first that matches counts. */
const KINDS: readonly (readonly [kind: string, file: RegExp])[] = [
  ["trie", /\/packages\/crypto\/src\/trie\//],
  ["relay log", /\/packages\/supplier\/src\/evidence\/|^node:(fs|internal\/fs)/],
  ["crypto", /\/packages\/crypto\/src\/|\/node_modules\/(secp256k1|@noble)\/|^node:(crypto|internal\/crypto)/],
  [
    "passing work to threads",
    /\/packages\/base\/src\/batch-threads\.ts|^node:internal\/(worker|per_context\/messageport)/,
  ],
  ["protobuf", /\/packages\/(protocol|proto)\/src\/|\/node_modules\/@bufbuild\//],
  [
    "HTTP",
    /\/node_modules\/(undici|ws)\/|^node:(_http|http|net|stream|_stream|events|diagnostics_channel)|^node:internal\/(http|stream|streams|net|abort_controller|event_target|webstreams|js_stream|dtrace)|^node:internal\/deps\/undici/,
  ],
  ["timers, promises and event loop of Node", /^node:/],
  ["gateway: engine and doors", /\/packages\/(relay|gateway)\/src\//],
  ["supplier: the rest", /\/packages\/supplier\/src\//],
  ["other code of ours", /\/(packages|apps|bench)\//],
  ["garbage collection, main thread", /^\(garbage collector\)$/],
  ["outside of JavaScript: kernel, parser, event loop", /^\(/],
];
const REST = "other packages";

const THREAD_KINDS: Readonly<Record<string, string>> = {
  WorkerThread: "crypto, on signing threads",
  "libuv-worker": "writes of the log and other work of libuv's threads",
  "node-V8Worker": "V8's threads: garbage collection, compiling",
};
const MAIN = "node-MainThread";
/** Takes the samples: no work of a relay. */
const PROFILER = "v8:ProfEvntProc";

function kindOf(file: string): string {
  return KINDS.find(([, pattern]) => pattern.test(file))?.[0] ?? REST;
}

/** CPU of one relay by kind of work, in µs. */
export function sharesOf({ files, threads }: ProfiledTime, relays: number): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const add = (kind: string, micros: number): void => void found.set(kind, (found.get(kind) ?? 0) + micros / relays);
  const sampled = files.reduce((sum, { micros }) => sum + micros, 0);
  // Samples say where the thread was, its clock how long it had a core.
  const scale = threads[MAIN] === undefined ? 1 : threads[MAIN] / sampled;
  for (const { file, micros } of files) add(kindOf(file), micros * scale);
  for (const [name, micros] of Object.entries(threads)) {
    if (name !== MAIN && name !== PROFILER) add(THREAD_KINDS[name] ?? "other threads", micros);
  }
  return found;
}

/** Where the CPU of a relay goes at the gateway and at the supplier. */
export function shareTable(
  relays: number,
  { gateway, supplier }: { readonly gateway: ProfiledTime; readonly supplier: ProfiledTime },
): Table {
  const sides = [sharesOf(gateway, relays), sharesOf(supplier, relays)];
  const totals = sides.map((side) => [...side.values()].reduce((sum, micros) => sum + micros, 0));
  const kinds = [...new Set(sides.flatMap((side) => [...side.keys()]))];
  const most = (kind: string): number => Math.max(...sides.map((side) => side.get(kind) ?? 0));
  kinds.sort((a, b) => most(b) - most(a));
  const cells = (micros: (side: number) => number): string[] =>
    sides.flatMap((_, side) => {
      const value = micros(side);
      return [value.toFixed(0), `${((value / (totals[side] ?? Number.NaN)) * 100).toFixed(1)}%`];
    });
  return {
    title: `where the CPU of a relay goes, while profiles are taken (${relays} relays): samples of the main thread by file, other threads by their clocks`,
    head: ["what", "gateway µs", "share", "supplier µs", "share"],
    lines: [
      ...kinds.map((kind) => [kind, ...cells((side) => sides[side]?.get(kind) ?? 0)]),
      ["all", ...cells((side) => totals[side] ?? 0)],
    ],
  };
}
