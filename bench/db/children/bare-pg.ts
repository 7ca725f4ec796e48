import { AppError } from "@turnpike/base";
import pg from "pg";
import { ownCpuMicros, serveParent } from "../../lib/child.ts";

/** What the bare side runs again and again: one transaction of a beginning, a statement and a commit. */
export interface BareRun {
  /** Begins the transaction, and takes the role on. */
  readonly begin: string;
  readonly text: string;
  readonly values: readonly unknown[];
  /** Name of the prepared statement. */
  readonly name: string;
  /** True: all three are sent at once. False: each waits for the one before, as the driver does it by itself. */
  readonly isPipelined: boolean;
  /** Transactions under way at once. */
  readonly concurrency: number;
  readonly durationMs: number;
}

/** What it counted. */
export interface BareResult {
  readonly answers: number;
  readonly elapsedMs: number;
  readonly cpuMicros: number;
}

/** Operations of this child: the driver alone, without HTTP, tokens, a query language or a check of any kind. */
export type BarePgOperations = {
  readonly open: (params: { readonly url: string; readonly connections: number }) => Promise<void>;
  readonly run: (run: BareRun) => Promise<BareResult>;
};

const owned = new AsyncDisposableStack();
let pools: { readonly plain: pg.Pool; readonly pipelined: pg.Pool } | undefined;

type Main = pg.QueryResult<{ readonly body: unknown }>;

async function transaction(from: pg.Pool, { begin, text, values, name, isPipelined }: BareRun): Promise<void> {
  const client = await from.connect();
  try {
    const statement = { text, values: [...values], name };
    let main: Main;
    if (isPipelined) {
      const sent = [client.query(begin), client.query(statement), client.query("commit")] as const;
      main = (await Promise.all(sent))[1] as Main;
    } else {
      await client.query(begin);
      main = await client.query(statement);
      await client.query("commit");
    }
    if (main.rows.length !== 1) throw new AppError("INTERNAL", { message: "A statement gave no row." });
  } finally {
    client.release();
  }
}

serveParent<BarePgOperations>(
  {
    async open({ url, connections }) {
      const open = (pipeline: boolean): pg.Pool =>
        owned.adopt(new pg.Pool({ connectionString: url, max: connections, pipeline }), (one) => one.end());
      pools = { plain: open(false), pipelined: open(true) };
    },
    async run(run) {
      const from = run.isPipelined ? pools?.pipelined : pools?.plain;
      if (from === undefined) throw new AppError("INTERNAL", { message: "There is no pool." });
      let answers = 0;
      const cpuBefore = ownCpuMicros();
      const startedMs = performance.now();
      const work = async (): Promise<void> => {
        while (performance.now() - startedMs < run.durationMs) {
          await transaction(from, run);
          answers++;
        }
      };
      await Promise.all(Array.from({ length: run.concurrency }, work));
      return { answers, elapsedMs: performance.now() - startedMs, cpuMicros: ownCpuMicros() - cpuBefore };
    },
  },
  owned,
);
