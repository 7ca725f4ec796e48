import { join } from "node:path";
import type { BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { Report } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { OurFacts } from "./our-config.ts";
import type { ReferenceStyle, SettleOperations, SettleResult } from "./settle-run.ts";

const CHILDREN = join(import.meta.dirname, "children");
const DOCUMENTED_AT_ONCE = 20;
/** For a chain whose nodes take more of one account than most do: with the defaults at most 1,600 payments of two keys wait for a block. */
const LARGE = { maxBatch: 150, maxOpenBatches: 32 };

/** Starts our facilitator: verifier, ledger and engine as `turnpike facilitator` wires them, without its HTTP server. */
export async function openOurs(facts: OurFacts): Promise<Child<SettleOperations>> {
  const child = await startChild<SettleOperations>(join(CHILDREN, "our-facilitator.ts"));
  await child.ask("open", { ...facts, style: "tuned" });
  return child;
}

/** Starts the reference facilitator. */
export async function openReference(
  rpcUrl: string,
  relayer: number,
  style: ReferenceStyle,
): Promise<Child<SettleOperations>> {
  const child = await startChild<SettleOperations>(join(CHILDREN, "reference-facilitator.ts"));
  await child.ask("open", { rpcUrl, databaseUrl: "", relayers: [relayer], style });
  return child;
}

/** Options of {@link benchSettle}. */
export interface SettleOptions {
  readonly rounds: number;
  readonly roundMs: number;
  /** Payments under way at once, with which each side settles most. */
  readonly concurrency: { readonly ours: number; readonly reference: number };
  /** Payments that the reference settles with its nonce manager alone, all at once. */
  readonly managed: number;
  readonly payers: number;
  /** Payments that each side settles before. */
  readonly warmUp: number;
  /** Payments that the reference as documented settles one after another. */
  readonly oneByOne: number;
}

/** Where {@link benchSettle} runs. */
export interface SettlePlace {
  readonly rpcUrl: string;
  readonly databaseUrl: string;
  /** Of ours with {@link LARGE}. */
  readonly largeDatabaseUrl: string;
  /** Numbers of relayer keys that nothing else uses: four of ours, three of the reference. */
  readonly relayers: readonly [number, number, number, number, number, number, number];
  readonly progress: BenchOptions["progress"];
}

const rate = ({ settled, elapsedMs }: SettleResult): number => (settled / elapsedMs) * 1_000;

function failuresText({ failures }: SettleResult): string {
  const entries = Object.entries(failures);
  return entries.length === 0 ? "" : ` (${entries.map(([reason, count]) => `${reason} ${count}`).join(", ")})`;
}

function roundsText(name: string, results: readonly SettleResult[]): string {
  const texts = results.map(
    (one) =>
      `${one.settled} in ${(one.elapsedMs / 1_000).toFixed(1)} s by ${one.transactions.length} transactions${failuresText(one)}`,
  );
  return `${name} ${texts.join(", ")}`;
}

/** How many payments are settled in a second under a constant backlog, with a block every second. */
export async function benchSettle(options: SettleOptions, place: SettlePlace): Promise<Report> {
  const { rounds, roundMs, concurrency, payers, oneByOne } = options;
  const [first, second, third, fourth, tunedKey, managedKey, documentedKey] = place.relayers;
  const { rpcUrl, databaseUrl } = place;
  await using ours = await openOurs({ rpcUrl, databaseUrl, relayers: [first, second] });
  await using large = await openOurs({
    rpcUrl,
    databaseUrl: place.largeDatabaseUrl,
    relayers: [third, fourth],
    relayer: LARGE,
  });
  await using tuned = await openReference(rpcUrl, tunedKey, "tuned");
  await using managed = await openReference(rpcUrl, managedKey, "managed");
  await using documented = await openReference(rpcUrl, documentedKey, "documented");
  const sides = [
    // more than either can settle: signing is done before and not counted
    { child: ours, concurrency: concurrency.ours, perSecond: 1_500, results: [] as SettleResult[] },
    { child: tuned, concurrency: concurrency.reference, perSecond: 400, results: [] as SettleResult[] },
    { child: large, concurrency: concurrency.ours * 2, perSecond: 2_000, results: [] as SettleResult[] },
  ] as const;
  for (const { child } of sides) await child.ask("run", { count: options.warmUp, concurrency: options.warmUp, payers });
  for (let round = 0; round < rounds; round++) {
    place.progress(`settlements: round ${round + 1} of ${rounds}`);
    for (const side of sides) {
      const count = side.concurrency + Math.ceil((side.perSecond * roundMs) / 1_000);
      side.results.push(
        await side.child.ask("run", { count, concurrency: side.concurrency, durationMs: roundMs, payers }),
      );
    }
  }
  place.progress("settlements: the reference with its defaults, and as documented");
  const withDefaults = await managed.ask("run", { count: options.managed, concurrency: options.managed, payers });
  const lone = await documented.ask("run", { count: oneByOne, concurrency: 1, payers });
  const atOnce = { count: DOCUMENTED_AT_ONCE, concurrency: DOCUMENTED_AT_ONCE, payers };
  const lost = await documented.ask("run", atOnce);
  const middle = (results: readonly SettleResult[], of: (one: SettleResult) => number): number =>
    median(results.map(of));
  const cpuMs = (one: SettleResult): number => one.cpuMicros / one.settled / 1_000;
  const oursPerSecond = { value: middle(sides[0].results, rate), unit: "/s" };
  return {
    rows: [
      {
        name: "payment.settle",
        title: "settled payments a second, 1 s blocks",
        ours: oursPerSecond,
        reference: { value: middle(sides[1].results, rate), unit: "/s" },
        ratioOf: "ours / reference",
        aim: { op: ">=", value: 10 },
      },
      {
        name: "payment.settle-large",
        title: `  ours with maxBatch ${LARGE.maxBatch}, maxOpenBatches ${LARGE.maxOpenBatches}`,
        ours: { value: middle(sides[2].results, rate), unit: "/s" },
        reference: { value: middle(sides[1].results, rate), unit: "/s" },
        ratioOf: "ours / reference",
      },
      {
        name: "payment.settle-managed",
        title: "  reference with the nonce manager alone",
        ours: oursPerSecond,
        reference: { value: rate(withDefaults), unit: "/s" },
        ratioOf: "ours / reference",
      },
      {
        name: "payment.settle-documented",
        title: "  reference as documented, one by one",
        ours: oursPerSecond,
        reference: { value: rate(lone), unit: "/s" },
        ratioOf: "ours / reference",
      },
      {
        name: "payment.settle-cpu",
        title: "CPU of the facilitator for one settlement",
        ours: { value: middle(sides[0].results, cpuMs), unit: "ms" },
        reference: { value: middle(sides[1].results, cpuMs), unit: "ms" },
        ratioOf: "reference / ours",
      },
    ],
    notes: [
      `settle: ${concurrency.ours} payments of ours under way at once, and ${concurrency.reference} of the reference, ${rounds} rounds of ${roundMs} ms and what was then under way; ` +
        `${roundsText("ours", sides[0].results)}; ${roundsText("reference", sides[1].results)}; ${roundsText(`ours with ${concurrency.ours * 2} under way and larger batches`, sides[2].results)}. The reference with ` +
        `viem's nonce manager, JSON-RPC batches and polling every 250 ms; ours with a durable PostgreSQL ledger`,
      `settle: with the nonce manager and viem's other defaults the reference settled ${withDefaults.settled} of ` +
        `${options.managed} at once${failuresText(withDefaults)}; as documented (viem's defaults) it goes one by one: at once it settled ${lost.settled} of ` +
        `${DOCUMENTED_AT_ONCE}${failuresText(lost)}`,
    ],
  };
}
