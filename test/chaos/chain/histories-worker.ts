import { parentPort } from "node:worker_threads";
import { changedGenesis, exportOf, startChanged } from "../../../packages/chain/test/generated/genesis-variants.ts";
import {
  causeOf,
  errorText,
  historyText,
  makeGround,
  runAfterGenesis,
  runDrawnHistory,
  shrink,
  Tally,
} from "../../../packages/chain/test/generated/history.ts";

/** Histories that branch off one state. */
export interface HistoriesTask {
  /** Seed of the state. */
  readonly ground: string;
  readonly histories: number;
  readonly geneses: number;
}

/** A failure, as a worker reports it. */
export interface ReportedFailure {
  readonly cause: string;
  readonly error: string;
  /** The smallest history with this failure, or the genesis, as JSON. */
  readonly json: string;
}

/** Result of a {@link HistoriesTask}. */
export interface HistoriesResult {
  readonly histories: number;
  readonly geneses: number;
  readonly refusedGeneses: number;
  readonly counts: readonly (readonly [string, number])[];
  readonly failures: readonly ReportedFailure[];
}

/** A history in so many is queried, exported and imported at its end. */
const LOOKED_AT = 8;

function runTask({ ground: seed, histories, geneses }: HistoriesTask): HistoriesResult {
  const tally = new Tally();
  const failures: ReportedFailure[] = [];
  const chain = makeGround(seed);
  for (let index = 0; index < histories; index++) {
    const name = `${seed}/${index}`;
    const { failure } = runDrawnHistory(
      { seed, chain },
      name,
      index % LOOKED_AT === 0 ? { tally, finalSeed: name } : { tally },
    );
    if (failure === undefined) continue;
    const { history, error } = shrink(chain, failure);
    failures.push({ cause: causeOf(error), error: errorText(error), json: historyText(history) });
  }
  const exported = exportOf(chain);
  let refusedGeneses = 0;
  for (let index = 0; index < geneses; index++) {
    const name = `${seed}/${index}`;
    const changed = changedGenesis(exported, name);
    if (changed === undefined) continue;
    try {
      const started = startChanged(changed, chain);
      if (started === undefined) refusedGeneses++;
      const error = started === undefined ? undefined : runAfterGenesis(started, name, tally);
      if (error !== undefined) throw error;
    } catch (error) {
      failures.push({ cause: causeOf(error), error: errorText(error), json: JSON.stringify(changed, undefined, 2) });
    }
  }
  return { histories, geneses, refusedGeneses, counts: [...tally.counts], failures };
}

parentPort?.on("message", (task: HistoriesTask) => parentPort?.postMessage(runTask(task)));
