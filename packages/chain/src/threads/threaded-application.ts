import type { ClientKey, Clock, Log, Metrics } from "@turnpike/base";
import type { Bytes, StateChange } from "@turnpike/chain-store";
import type { ChainApp, CheckObserver, MempoolState } from "../app/chain-app.ts";
import { abciFault, abciOfStatus } from "../app/query-answers.ts";
import { type SimulationBounds, Simulations } from "../app/simulations.ts";
import type { AppAnswer, Application, EncodedMessage, EncodedSimulation, GrpcAnswer } from "../app/types.ts";
import { GRPC_STATUS } from "../state/grpc-status.ts";
import { SDK, type TxResult } from "../state/outcome.ts";
import type { GasPrice } from "../tx/fees.ts";
import type { SimulationWork, ThreadData, ThreadRequest } from "./messages.ts";
import { faultOfThread, QueryThreads, type ThreadPort, type WorkOutcome } from "./query-threads.ts";

export interface ThreadedApplicationOptions {
  /** Folder of the store that the application has open. */
  readonly folder: string;
  readonly gasPrices: readonly GasPrice[];
  /** Threads that answer queries; 1 by default. Simulations have one of their own. */
  readonly threads?: number;
}

export interface ThreadedApplicationModules {
  readonly application: ChainApp;
  readonly log: Log;
  readonly metrics?: Metrics;
  readonly clock?: Clock;
  /** Starts a thread, as of {@link QueryThreads}. */
  readonly start?: (data: ThreadData) => ThreadPort;
}

/** Address space that LMDB maps at first, as where the store is opened. */
const MAP_BYTES = 1_073_741_824;
const MOST_QUERIES = 2_000;
/** Queries that a thread has at hand, so that it has work while the node's thread makes a block. */
const AHEAD = 64;
const MAX_WAIT_MS = 10_000;
const MAX_QUERY_MS = 5_000;
const MAX_SIMULATION_MS = 10_000;
/** Writes of checks that are kept for the next simulation; of more, the whole state is sent instead. */
const MOST_WRITES = 20_000;

/** Twice what the thread of the blocks would run itself: it does not wait for these. */
const BOUNDS: SimulationBounds = { maxGas: 200_000_000n, maxWaiting: 64 };

/** What checks wrote and the simulation thread has not got yet. It is sent with the next simulation. */
class PendingChecks implements CheckObserver {
  #state: MempoolState | undefined;
  #isNew = true;
  #writes: StateChange[] = [];

  began(state: MempoolState): void {
    this.#state = state;
    this.#isNew = true;
    this.#writes = [];
  }

  wrote(writes: readonly StateChange[]): void {
    // All of them are sent then.
    if (this.#isNew) return;
    for (const write of writes) this.#writes.push(write);
    if (this.#writes.length <= MOST_WRITES) return;
    this.#isNew = true;
    this.#writes = [];
  }

  requests(isFresh: boolean): ThreadRequest[] {
    const state = this.#state;
    if (state === undefined) return [];
    const isNew = isFresh || this.#isNew;
    const writes = isNew ? state.writes() : this.#writes;
    this.#isNew = false;
    this.#writes = [];
    if (!isNew && writes.length === 0) return [];
    const { stateHeightBlocks, block } = state;
    return [{ kind: "state", isNew, stateHeightBlocks, block, writes }];
  }
}

/**
 * The application as servers ask it, with queries and simulations on threads of their own that read the store's snapshots: the
 * thread that makes blocks hands requests on, and runs none of them (docs/decisions/0015).
 */
export class ThreadedApplication implements Application, AsyncDisposable {
  readonly #application: ChainApp;
  readonly #queries: QueryThreads;
  readonly #simulating: QueryThreads;
  readonly #simulations: Simulations;
  readonly #pendingChecks = new PendingChecks();

  constructor(opts: ThreadedApplicationOptions, { application, ...modules }: ThreadedApplicationModules) {
    const { folder, gasPrices, threads = 1 } = opts;
    const data = { folder, gasPrices, mapSizeBytes: MAP_BYTES, version: application.version, maxWaitMs: MAX_WAIT_MS };
    this.#application = application;
    this.#queries = new QueryThreads(
      { ...data, name: "query", threads, maxWaiting: MOST_QUERIES, maxUnderWay: AHEAD, maxRunMs: MAX_QUERY_MS },
      modules,
    );
    this.#simulating = new QueryThreads(
      { ...data, name: "simulation", threads: 1, maxWaiting: 1, maxUnderWay: 1, maxRunMs: MAX_SIMULATION_MS },
      modules,
    );
    this.#simulations = new Simulations(BOUNDS, { pauses: false });
    application.observeChecks(this.#pendingChecks);
  }

  get chainId(): string {
    return this.#application.chainId;
  }

  get version(): string {
    return this.#application.version;
  }

  latestHeightBlocks(): bigint {
    return this.#application.latestHeightBlocks();
  }

  latestAppHash(): Bytes {
    return this.#application.latestAppHash();
  }

  async grpcQuery(path: string, request: Bytes, heightBlocks = 0n, client?: ClientKey): Promise<GrpcAnswer> {
    const outcome = await this.#queries.ask({ kind: "grpc", path, data: request, heightBlocks }, { client });
    return outcome.kind === "grpc" ? outcome.answer : refused(outcome);
  }

  async abciQuery(path: string, data: Bytes, heightBlocks = 0n, client?: ClientKey): Promise<AppAnswer> {
    const outcome = await this.#queries.ask({ kind: "abci", path, data, heightBlocks }, { client });
    return outcome.kind === "abci" ? outcome.answer : abciOfStatus(refused(outcome));
  }

  async simulate(tx: Bytes, client?: ClientKey): Promise<TxResult | undefined> {
    return (await this.#queued(tx, "result", client))?.result;
  }

  simulateEncoded(tx: Bytes, form: "response" | "json", client?: ClientKey): Promise<EncodedSimulation | undefined> {
    return this.#queued(tx, form, client);
  }

  /** Resolves when the thread of simulations has started, so that a caller's time limit is for the simulation alone. */
  simulationsReady(): Promise<void> {
    return this.#simulating.opened();
  }

  async apiJson(typeName: string, bytes: Bytes, client?: ClientKey): Promise<string | undefined> {
    const outcome = await this.#queries.ask({ kind: "json", typeName, bytes }, { client });
    return outcome.kind === "json" ? outcome.text : undefined;
  }

  async readApiJson(typeName: string, json: Bytes, client?: ClientKey): Promise<EncodedMessage | undefined> {
    const outcome = await this.#queries.ask({ kind: "read-json", typeName, json }, { client });
    if (outcome.kind === "fault") throw faultOfThread(outcome);
    return outcome.kind === "read-json" ? outcome.message : undefined;
  }

  /**
   * Starts the threads of queries, which otherwise start with the first one. Simulations get theirs with the first of them: many
   * a node never runs one, and a thread takes some 60 MB.
   */
  warm(): void {
    this.#queries.warm();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#queries[Symbol.asyncDispose](), this.#simulating[Symbol.asyncDispose]()]);
  }

  async #queued(tx: Bytes, form: SimulationWork["form"], client: ClientKey): Promise<EncodedSimulation | undefined> {
    const tooLarge = this.#simulations.sizeFault(tx);
    if (tooLarge !== undefined) return { result: tooLarge, encoded: undefined };
    return this.#simulations.run(tx, (bytes, maxGas) => this.#simulate(bytes, maxGas, form), client);
  }

  async #simulate(tx: Bytes, maxGas: bigint, form: SimulationWork["form"]): Promise<EncodedSimulation | undefined> {
    const most = this.#application.maxBlockGas;
    const gas = most >= 0n && most < maxGas ? most : maxGas;
    const work = { kind: "simulate", tx, maxGas: gas, form } as const;
    const before = (isFresh: boolean): ThreadRequest[] => this.#pendingChecks.requests(isFresh);
    const outcome = await this.#simulating.ask(work, { before });
    if (outcome.kind === "simulate") return outcome;
    if (outcome.kind === "fault") throw faultOfThread(outcome);
    if (outcome.kind !== "late") return undefined;
    const { code, codespace, log } = abciFault(SDK.outOfGas, `the simulation took longer than ${MAX_SIMULATION_MS} ms`);
    const result = { code, codespace, log, data: new Uint8Array(0), gasWanted: gas, gasUsed: gas, events: [] };
    return { result, encoded: undefined };
  }
}

function refused(outcome: WorkOutcome): GrpcAnswer & { readonly ok: false } {
  if (outcome.kind === "fault") throw faultOfThread(outcome);
  const [status, text] =
    outcome.kind === "late"
      ? [GRPC_STATUS.DeadlineExceeded, `the query took longer than ${MAX_QUERY_MS} ms`]
      : [GRPC_STATUS.ResourceExhausted, "too many requests wait"];
  return { ok: false, status, text, heightBlocks: 0n };
}
