import { join } from "node:path";
import type { BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
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

/** The two verifying children, on the same chain. */
interface Verifiers extends AsyncDisposable {
  readonly ours: Child<VerifyOperations>;
  readonly reference: Child<VerifyOperations>;
}

async function openVerifiers(rpcUrl: string | undefined): Promise<Verifiers> {
  await using stack = new AsyncDisposableStack();
  const ours = stack.use(await startChild<VerifyOperations>(join(CHILDREN, "our-verifier.ts")));
  const reference = stack.use(await startChild<VerifyOperations>(join(CHILDREN, "reference-verifier.ts")));
  await Promise.all([ours, reference].map((child) => child.ask("open", { rpcUrl })));
  const owned = stack.move();
  return { ours, reference, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Verifications a second of one core: by the CPU time of all threads, against a chain that answers at once. */
async function compare(
  { progress, ...options }: VerifyOptions & Pick<BenchOptions, "progress">,
  verifiers: Verifiers,
  shape: { readonly name: string; readonly title: string; readonly onePayer: boolean },
): Promise<Row> {
  const sides = [
    { child: verifiers.ours, count: options.ours, perSecond: [] as number[] },
    { child: verifiers.reference, count: options.reference, perSecond: [] as number[] },
  ] as const;
  const run = async (side: (typeof sides)[number], count: number): Promise<number> => {
    const wanted: VerifyRun = { count, concurrency: CONCURRENCY, payers: shape.onePayer ? 1 : count };
    const { cpuMicros } = await side.child.ask("run", wanted);
    return (count / cpuMicros) * 1_000_000;
  };
  for (const side of sides) await run(side, Math.ceil(side.count / 2));
  for (let round = 0; round < options.rounds; round++) {
    progress(`${shape.name}: round ${round + 1} of ${options.rounds}`);
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
export async function benchVerify(options: VerifyOptions & Pick<BenchOptions, "progress">): Promise<Report> {
  const title = "verifications a second of one core";
  const rows: Row[] = [];
  {
    await using verifiers = await openVerifiers(undefined);
    rows.push(await compare(options, verifiers, { name: "payment.verify", title, onePayer: false }));
    rows.push(
      await compare(options, verifiers, { name: "payment.verify-one-payer", title: "  one payer", onePayer: true }),
    );
  }
  await using standIn = await startChild<StandInOperations>(join(CHILDREN, "stand-in-rpc.ts"));
  const { url } = await standIn.ask("start", undefined);
  await using verifiers = await openVerifiers(url);
  rows.push(
    await compare(options, verifiers, { name: "payment.verify-http", title: "  chain over HTTP", onePayer: false }),
  );
  return {
    rows,
    notes: [
      `verify: CPU time of all threads; ${options.rounds} round(s) of ${options.ours} (ours) and ${options.reference} (reference) ` +
        `payments, ${CONCURRENCY} at once, each of another payer where not said otherwise; the chain answers in 0 ms`,
    ],
  };
}
