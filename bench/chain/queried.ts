import { join } from "node:path";
import type { BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { LoadOperations, LoadRun } from "../lib/load.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { QueriedNode, QueriedNodeOperations } from "./children/queried-node.ts";

const QUERIES_PER_SECOND = 1_000;
const TXS = 200;
/** The load is there before the first block and after the last. */
const MARGIN_MS = 400;
const BLOCK_MS = 400;

type LoadOf = (node: QueriedNode) => Omit<LoadRun, "durationMs">;

const balances: LoadOf = ({ rest, account }) => {
  const path = `/cosmos/bank/v1beta1/balances/${account}/by_denom?denom=upokt`;
  const request = Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
  return { port: rest, request, connections: 64, status: 200, ratePerSecond: QUERIES_PER_SECOND };
};

const simulations: LoadOf = ({ rest, largeTx }) => {
  const body = JSON.stringify({ tx_bytes: largeTx });
  const head = `POST /cosmos/tx/v1beta1/simulate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  return { port: rest, request: Buffer.from(`${head}${body}`), connections: 2, status: 200 };
};

interface Figures {
  readonly idle: number[];
  readonly loaded: number[];
  readonly answersPerSecond: number[];
  /** CPU of the thread that makes blocks for one answer, in µs. */
  readonly threadMicros: number[];
}

/** Blocks of one node, in turn without and with a load. */
async function measure(threads: boolean, loadOf: LoadOf, { quick, progress }: BenchOptions): Promise<Figures> {
  await using owned = new AsyncDisposableStack();
  const node = owned.use(
    await startChild<QueriedNodeOperations>(join(import.meta.dirname, "children/queried-node.ts")),
  );
  const load: Child<LoadOperations> = owned.use(
    await startChild<LoadOperations>(join(import.meta.dirname, "../lib/load.ts")),
  );
  const started = await node.ask("start", { threads });
  const [rounds, count, first] = quick ? [1, 2, 1] : [3, 15, 5];
  const figures: Figures = { idle: [], loaded: [], answersPerSecond: [], threadMicros: [] };
  await node.ask("blocks", { count: first, txs: TXS });
  for (let round = 0; round < rounds; round++) {
    progress(`queried: with${threads ? "" : "out"} threads, round ${round + 1} of ${rounds}`);
    const startMicros = await node.ask("threadMicros", undefined);
    figures.idle.push(...(await node.ask("blocks", { count, txs: TXS })));
    const idleMicros = await node.ask("threadMicros", undefined);
    const running = load.ask("run", { ...loadOf(started), durationMs: count * BLOCK_MS + 2 * MARGIN_MS });
    await new Promise((resolve) => setTimeout(resolve, MARGIN_MS));
    figures.loaded.push(...(await node.ask("blocks", { count, txs: TXS })));
    const { answers, elapsedMs } = await running;
    figures.answersPerSecond.push((answers / elapsedMs) * 1_000);
    const loadedMicros = (await node.ask("threadMicros", undefined)) - idleMicros;
    figures.threadMicros.push((loadedMicros - (idleMicros - startMicros)) / Math.max(1, answers));
  }
  return figures;
}

function row(name: string, title: string, { idle, loaded }: Figures): Row {
  return {
    name: `chain.${name}`,
    title,
    ours: { value: median(loaded), unit: "ms" },
    reference: { value: median(idle), unit: "ms" },
    ratioOf: "ours / reference",
  };
}

/** What a block takes while a node is queried, over the same blocks of the same node left alone. */
export async function queriedReport(options: BenchOptions): Promise<Report> {
  const { progress } = options;
  const rows: Row[] = [];
  const notes: string[] = [];
  const cases = [
    ["queries", balances, `${QUERIES_PER_SECOND.toLocaleString("en-US")} queries a second`],
    ["simulations", simulations, "simulations of 600 KB, two at a time"],
  ] as const;
  for (const [name, loadOf, title] of cases) {
    progress(`queried: ${title}`);
    const beside = await measure(true, loadOf, options);
    const inside = await measure(false, loadOf, options);
    rows.push(row(`block-${name}`, `a block of ${TXS} sends from its time on, with ${title}`, beside));
    rows.push(row(`block-${name}-one-thread`, "… run on the thread of the blocks", inside));
    rows.push({
      name: `chain.${name}-thread-cpu`,
      title: "… CPU of the thread that makes blocks, for one of them",
      ours: { value: median(beside.threadMicros), unit: "µs" },
      reference: { value: median(inside.threadMicros), unit: "µs" },
      ratioOf: "ours / reference",
    });
    const [a, b] = [beside, inside].map(({ answersPerSecond }) => Math.round(median(answersPerSecond)));
    notes.push(`${title}: ${a} answers a second beside the blocks, ${b} on their thread.`);
  }
  notes.push(
    "The reference of blocks is the same blocks of the same node without queries, in turn; they are waiting, not CPU: look at them on an idle machine. The reference of the thread is the same work run on it.",
  );
  return { rows, notes };
}
