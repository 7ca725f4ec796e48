import { join } from "node:path";
import { startChild } from "../lib/child.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { StandInOperations } from "./children/stand-in-rpc.ts";
import type { VerifyOperations, VerifyRun } from "./verify-run.ts";

/** Options of {@link benchVerify}. */
export interface VerifyOptions {
  readonly rounds: number;
  /** Payments of one round. */
  readonly ours: number;
  readonly reference: number;
}

const CHILDREN = join(import.meta.dirname, "children");
const CONCURRENCY = 256;

/** Verifications a second of one core: by the CPU time of all threads, against a chain that answers at once. */
async function compare(
  options: VerifyOptions,
  shape: {
    readonly name: string;
    readonly title: string;
    readonly rpcUrl: string | undefined;
    readonly onePayer: boolean;
  },
): Promise<Row> {
  await using ours = await startChild<VerifyOperations>(join(CHILDREN, "our-verifier.ts"));
  await using reference = await startChild<VerifyOperations>(join(CHILDREN, "reference-verifier.ts"));
  const sides = [
    { child: ours, count: options.ours, perSecond: [] as number[] },
    { child: reference, count: options.reference, perSecond: [] as number[] },
  ] as const;
  for (const { child } of sides) await child.ask("open", { rpcUrl: shape.rpcUrl });
  const run = async (side: (typeof sides)[number], count: number): Promise<number> => {
    const payers = shape.onePayer ? 1 : count;
    const wanted: VerifyRun = { count, concurrency: CONCURRENCY, payers };
    const { cpuMicros } = await side.child.ask("run", wanted);
    return (count / cpuMicros) * 1_000_000;
  };
  for (const side of sides) await run(side, Math.ceil(side.count / 2));
  for (let round = 0; round < options.rounds; round++) {
    for (const side of sides) side.perSecond.push(await run(side, side.count));
  }
  return {
    name: shape.name,
    title: shape.title,
    ours: { value: median(sides[0].perSecond), unit: "/s" },
    reference: { value: median(sides[1].perSecond), unit: "/s" },
    ratioOf: "ours / reference",
    aim: { op: ">=", value: 10 },
  };
}

/** From the text of the header to the verdict, signatures of plain accounts. */
export async function benchVerify(options: VerifyOptions): Promise<Report> {
  const title = "verifications a second of one core";
  const inside = { rpcUrl: undefined, onePayer: false };
  const rows = [
    await compare(options, { ...inside, name: "payment.verify", title }),
    await compare(options, {
      ...inside,
      name: "payment.verify-one-payer",
      title: `${title}, one payer`,
      onePayer: true,
    }),
  ];
  await using standIn = await startChild<StandInOperations>(join(CHILDREN, "stand-in-rpc.ts"));
  const { url } = await standIn.ask("start", undefined);
  rows.push(
    await compare(options, {
      name: "payment.verify-http",
      title: `${title}, chain over HTTP`,
      rpcUrl: url,
      onePayer: false,
    }),
  );
  return {
    rows,
    notes: [
      `verify: CPU time of all threads; ${options.rounds} rounds of ${options.ours} (ours) and ${options.reference} (reference) ` +
        `payments, ${CONCURRENCY} at once, each of another payer where not said otherwise; the chain answers in 0 ms`,
    ],
  };
}
