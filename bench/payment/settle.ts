import { join } from "node:path";
import { isRecord } from "@turnpike/base";
import { devRpc } from "@turnpike/localnet";
import { type Child, startChild } from "../lib/child.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { SettleFacts, SettleOperations, SettleResult } from "./settle-run.ts";

const CHILDREN = join(import.meta.dirname, "children");

/** The two settling children, on one chain. */
export interface Settlers extends AsyncDisposable {
  readonly ours: Child<SettleOperations>;
  readonly reference: Child<SettleOperations>;
  /** The reference without a nonce manager and with viem's own polling, as its examples show it. */
  readonly plain: Child<SettleOperations>;
}

/** Opens ours with its default options, and the reference in both ways. */
export async function openSettlers(facts: Pick<SettleFacts, "rpcUrl" | "databaseUrl">): Promise<Settlers> {
  await using stack = new AsyncDisposableStack();
  const ours = stack.use(await startChild<SettleOperations>(join(CHILDREN, "our-facilitator.ts")));
  const reference = stack.use(await startChild<SettleOperations>(join(CHILDREN, "reference-facilitator.ts")));
  const plain = stack.use(await startChild<SettleOperations>(join(CHILDREN, "reference-facilitator.ts")));
  await ours.ask("open", { ...facts, relayers: [2, 3], managedNonces: true, pollMs: undefined });
  await reference.ask("open", { ...facts, relayers: [4], managedNonces: true, pollMs: 100 });
  await plain.ask("open", { ...facts, relayers: [5], managedNonces: false, pollMs: undefined });
  const owned = stack.move();
  return { ours, reference, plain, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Gas of all these transactions together. */
export async function gasUsed(rpcUrl: string, transactions: readonly string[]): Promise<bigint> {
  let sum = 0n;
  for (const hash of transactions) {
    const receipt = await devRpc(rpcUrl, "eth_getTransactionReceipt", [hash]);
    if (isRecord(receipt)) sum += BigInt(String(receipt.gasUsed));
  }
  return sum;
}

function failuresText({ failures }: SettleResult): string {
  const entries = Object.entries(failures);
  return entries.length === 0 ? "" : ` (${entries.map(([reason, count]) => `${reason} ${count}`).join(", ")})`;
}

/** Options of {@link benchSettle}. */
export interface SettleOptions {
  readonly rounds: number;
  /** Payments of one round, for each side. */
  readonly count: number;
  /** Most of them under way at once. */
  readonly concurrency: number;
  readonly payers: number;
}

/** How many payments are settled in a second, offered all at once, with a block every second. */
export async function benchSettle(options: SettleOptions, settlers: Settlers): Promise<Report> {
  const { rounds, count, concurrency, payers } = options;
  const rate = ({ settled, elapsedMs }: SettleResult): number => (settled / elapsedMs) * 1_000;
  const sides = { ours: [] as SettleResult[], reference: [] as SettleResult[] };
  for (const side of ["ours", "reference"] as const) await settlers[side].ask("run", { count: 20, concurrency: 20, payers });
  for (let round = 0; round < rounds; round++) {
    for (const side of ["ours", "reference"] as const) {
      sides[side].push(await settlers[side].ask("run", { count, concurrency, payers }));
    }
  }
  const plain = await settlers.plain.ask("run", { count: 20, concurrency: 20, payers });
  const middle = (results: readonly SettleResult[], of: (one: SettleResult) => number): number =>
    median(results.map(of));
  const row: Row = {
    name: "payment.settle",
    title: "settled payments a second, 1 s blocks",
    ours: { value: middle(sides.ours, rate), unit: "/s" },
    reference: { value: middle(sides.reference, rate), unit: "/s" },
    ratioOf: "ours / reference",
    aim: { op: ">=", value: 10 },
  };
  const cpu: Row = {
    name: "payment.settle-cpu",
    title: "CPU of the facilitator for one settlement",
    ours: { value: middle(sides.ours, (one) => one.cpuMicros / one.settled / 1_000), unit: "ms" },
    reference: { value: middle(sides.reference, (one) => one.cpuMicros / one.settled / 1_000), unit: "ms" },
    ratioOf: "reference / ours",
  };
  const said = (name: string, results: readonly SettleResult[]): string =>
    `${name} ${results
      .map(
        (one) =>
          `${one.settled} of ${count} in ${(one.elapsedMs / 1_000).toFixed(2)} s by ${one.transactions.length} transactions${failuresText(one)}`,
      )
      .join("; ")}`;
  return {
    rows: [row, cpu],
    notes: [
      `settle: ${count} payments at once; ${said("ours", sides.ours)}; ${said("reference", sides.reference)}`,
      `settle: the reference as its examples show it (no nonce manager, viem's polling) settled ${plain.settled} of 20 ` +
        `in ${(plain.elapsedMs / 1_000).toFixed(2)} s${failuresText(plain)}`,
    ],
  };
}

/** Gas of one payment: fifty in one transaction, and one by itself. */
export async function benchGas(rpcUrl: string, settlers: Settlers): Promise<Report> {
  const batch = await settlers.ours.ask("run", { count: 50, concurrency: 50, payers: 50 });
  const batched = Number(await gasUsed(rpcUrl, batch.transactions)) / batch.settled;
  const [single, other] = [
    await settlers.ours.ask("run", { count: 1, concurrency: 1, payers: 1 }),
    await settlers.reference.ask("run", { count: 1, concurrency: 1, payers: 1 }),
  ];
  const direct = Number(await gasUsed(rpcUrl, single.transactions));
  const theirs = Number(await gasUsed(rpcUrl, other.transactions));
  return {
    rows: [
      {
        name: "payment.gas",
        title: "gas of one settled payment",
        ours: { value: batched, unit: "gas" },
        reference: { value: theirs, unit: "gas" },
        ratioOf: "ours / reference",
        aim: { op: "<=", value: 0.7 },
      },
    ],
    notes: [
      `gas: ${batch.settled} payments of different payers in ${batch.transactions.length} transaction(s); ` +
        `a single one of ours is a direct call and uses ${direct} gas, one of the reference ${theirs}`,
    ],
  };
}
