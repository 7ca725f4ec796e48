import { AppError, type ClientKey, type Log, silentLog } from "@turnpike/base";
import type { BlockChanges, BlockRecord, Bytes, ChainStore, StateChange } from "@turnpike/chain-store";
import { nsToRfc3339 } from "@turnpike/cometbft";
import { failedParts } from "../state/block-parts.ts";
import { bytesToText } from "../state/bytes.ts";
import type { BlockInfo } from "../state/context.ts";
import type { ValidatorUpdate } from "../state/module.ts";
import { fail, SDK, type TxResult } from "../state/outcome.ts";
import { Overlay } from "../state/overlay.ts";
import type { TxFacts } from "../tx/tx-facts.ts";
import { AppQueries } from "./app-queries.ts";
import { type BlockBounds, fittingTxs } from "./block-bounds.ts";
import { blockInfoChange, readBlockInfo, readPastBlocks } from "./block-infos.ts";
import { BlockMeter, METER_BLOCKS } from "./block-meter.ts";
import { readStart, type StartRecord, startHash, writeStart } from "./chain-start.ts";
import { RulesWatch } from "./rules-watch.ts";
import { SIMULATION_BOUNDS, Simulations } from "./simulations.ts";
import type { BlockOutcome, StateMachine } from "./state-machine.ts";
import type { AppAnswer, ChainStart, DrivenApplication, GrpcAnswer, RunBlock } from "./types.ts";

export interface ChainAppOptions {
  /** Version of the program, such as `0.1.35`. */
  readonly version: string;
  /** Most gas of a block, by the consensus parameters; -1, and left out: any. */
  readonly maxBlockGas?: bigint;
  /** Most bytes of a block, by the same; -1, and left out: any. */
  readonly maxBlockBytes?: bigint;
}

export interface ChainAppModules {
  readonly machine: StateMachine;
  /** Stays the caller's. */
  readonly store: ChainStore;
  readonly log?: Log;
  /** Counts and times blocks and checks. */
  readonly meter?: BlockMeter;
}

/** A state in the form of a genesis. */
export interface ExportedState {
  /** The block that it is the state after. */
  readonly heightBlocks: bigint;
  /** That block's time: RFC 3339, in UTC. */
  readonly time: string;
  readonly appState: Readonly<Record<string, unknown>>;
}

interface CheckState {
  readonly block: BlockInfo;
  readonly state: Overlay;
}

/** The mempool's state over the state after a block. */
export interface MempoolState {
  readonly stateHeightBlocks: bigint;
  /** The block that transactions are checked in. */
  readonly block: BlockInfo;
  /** All that checks wrote so far. */
  readonly writes: () => readonly StateChange[];
}

/** Observes what the mempool's checks write. */
export interface CheckObserver {
  /** Checks run on a new state from now on. */
  began(state: MempoolState): void;
  /** A check wrote this on top. */
  wrote(writes: readonly StateChange[]): void;
}

/** Maximum gas of a transaction that is run before a block: some 100 ms. */
const MAX_TRIAL_GAS = 10_000_000n;
/**
 * Maximum number of grants, of different accounts or types, by which a transaction may take coins and be in a full block whose
 * transactions are not run before: each is looked up.
 */
const MAX_GRANTED_SPENDS = 64;
const NOTHING: Bytes = new Uint8Array(0);
const EMPTY = { get: () => undefined, range: () => [] };

/** The state machine on the store, for the engine that drives it and for the servers that ask it. */
export class ChainApp implements DrivenApplication {
  readonly version: string;
  readonly #machine: StateMachine;
  readonly #store: ChainStore;
  readonly #meter: BlockMeter;
  readonly #maxBlockGas: bigint;
  readonly #bounds: BlockBounds;
  readonly #queries: AppQueries;
  readonly #simulations: Simulations;
  readonly #rulesWatch: RulesWatch;
  readonly #log: Log;
  #start: StartRecord | undefined;
  #check: CheckState | undefined;
  #observer: CheckObserver | undefined;
  #pending: BlockChanges | undefined;

  /** @throws AppError CHAIN_RULES when the store's state was made by rules that the machine does not have */
  constructor(
    { version, maxBlockGas, maxBlockBytes }: ChainAppOptions,
    { machine, store, log, meter }: ChainAppModules,
  ) {
    this.version = version;
    this.#maxBlockGas = maxBlockGas ?? -1n;
    this.#bounds = { maxBlockGas: this.#maxBlockGas, maxBlockBytes: maxBlockBytes ?? -1n };
    this.#machine = machine;
    this.#store = store;
    this.#log = log ?? silentLog;
    this.#meter = meter ?? new BlockMeter();
    this.#meter.before(readPastBlocks(store, METER_BLOCKS));
    this.#queries = new AppQueries({ app: this, machine, store, log: log ?? silentLog });
    this.#rulesWatch = new RulesWatch({
      programRules: machine.rules,
      metrics: this.#meter.metrics,
      log: log ?? silentLog,
    });
    this.#simulations = new Simulations(SIMULATION_BOUNDS, { pauses: true });
    this.#start = readStart(store);
    this.#checkRules();
    this.#remakeCheck();
  }

  /** Empty before there is a genesis. */
  get chainId(): string {
    return this.#start?.chainId ?? "";
  }

  /** Height of the first block; 0 before there is a genesis. */
  get initialHeightBlocks(): bigint {
    return this.#start?.initialHeightBlocks ?? 0n;
  }

  latestHeightBlocks(): bigint {
    const newest = this.#store.latestHeightBlocks();
    if (newest === undefined || this.#start === undefined) return 0n;
    return newest < this.#start.initialHeightBlocks ? 0n : newest;
  }

  latestAppHash(): Bytes {
    const newest = this.#store.latestHeightBlocks();
    return newest === undefined ? NOTHING : (this.#store.appHash(newest) ?? NOTHING);
  }

  /** @param accept is asked before the genesis is written, and throws to refuse its validators */
  async start(
    genesis: ChainStart,
    accept?: (validatorUpdates: readonly ValidatorUpdate[]) => void,
  ): Promise<{ readonly appHash: Bytes; readonly validatorUpdates: readonly ValidatorUpdate[] }> {
    const hash = startHash(genesis);
    const known = this.#start;
    if (known !== undefined) {
      if (known.hash !== hash) throw otherGenesis(known, genesis);
      const appHash = this.#store.appHash(known.initialHeightBlocks - 1n) ?? NOTHING;
      return { appHash, validatorUpdates: known.validatorUpdates };
    }
    if (this.#store.latestHeightBlocks() !== undefined) {
      throw new AppError("CONFIG_INVALID", { message: "The chain's store holds no chain of this program." });
    }
    const { block, outcome } = this.#runGenesis(genesis);
    const { changes, validatorUpdates } = outcome;
    accept?.(validatorUpdates);
    const { chainId, initialHeightBlocks } = genesis;
    const record: StartRecord = { chainId, initialHeightBlocks, hash, validatorUpdates };
    const written = { changes: [...changes, blockInfoChange(block)], records: [writeStart(record)] };
    const appHash = await this.#store.commit({ heightBlocks: block.heightBlocks, ...written });
    this.#start = record;
    this.#remakeCheck();
    return { appHash, validatorUpdates };
  }

  /**
   * The record of a genesis that was not run here: what a state that a snapshot brings needs of it.
   * @throws AppError CONFIG_INVALID when the genesis is not valid
   */
  startRecord(genesis: ChainStart): BlockRecord {
    const { block, outcome } = this.#runGenesis(genesis);
    const { chainId, heightBlocks } = block;
    const { validatorUpdates } = outcome;
    const initialHeightBlocks = heightBlocks + 1n;
    return writeStart({ chainId, initialHeightBlocks, hash: startHash(genesis), validatorUpdates });
  }

  /** Reads anew where the store stands, after something else than a block changed it. */
  reload(): void {
    this.#start = readStart(this.#store);
    this.#check = undefined;
    this.#pending = undefined;
    this.#checkRules();
    this.#remakeCheck();
  }

  // A state of later rules would be read, and go on, in a way that no other node follows.
  #checkRules(): void {
    const newest = this.#store.latestHeightBlocks();
    if (newest === undefined || this.#start === undefined) return;
    this.#rulesWatch.check(this.#machine.rulesAhead(this.#store.at(newest)));
  }

  run(block: BlockInfo, txs: readonly Bytes[]): RunBlock {
    const reader = this.#store.at(block.heightBlocks - 1n);
    const ran = this.#meter.begin("run");
    const outcome = this.#machine.runBlock(reader, block, txs);
    ran();
    const changes: BlockChanges = {
      heightBlocks: block.heightBlocks,
      changes: [...outcome.changes, blockInfoChange(block)],
      records: [],
    };
    const hashed = this.#meter.begin("hash");
    const run: RunBlock = { block, outcome, appHash: this.#store.appHashOf(changes) };
    hashed();
    this.#pending = changes;
    const failed = failedParts(outcome.events);
    for (const part of failed) {
      const fields = { heightBlocks: block.heightBlocks.toString(), ...part };
      this.#log.error(fields, "part of a block failed and was left out");
    }
    this.#meter.ran(outcome.results, failed);
    return run;
  }

  async commit(records: readonly BlockRecord[]): Promise<void> {
    const pending = this.#pending;
    if (pending === undefined) throw new AppError("INTERNAL", { detail: { noBlockWasRun: true } });
    const written = this.#meter.begin("write");
    await this.#store.commit({ ...pending, records });
    written();
    this.#pending = undefined;
    this.#remakeCheck();
    this.#meter.committed();
  }

  fitting(txs: readonly Bytes[]): number {
    return fittingTxs(txs, this.#bounds);
  }

  check(tx: Bytes, again: boolean): TxResult {
    const result = this.#check === undefined ? noState() : this.#checkOn(this.#check, tx, again);
    this.#meter.checked(again, result.code);
    return result;
  }

  checkReplacement(tx: Bytes): TxResult {
    const check = this.#check;
    if (check === undefined) return noState();
    const rewoundState = new Overlay(check.state);
    this.#machine.rewind(rewoundState, check.block, tx);
    const rewound = new Set(rewoundState.writes().map(([key]) => bytesToText(key)));
    const state = new Overlay(rewoundState);
    const result = this.#withinBlockGas(this.#machine.runTx(state, check.block, "check", tx));
    this.#meter.checked(false, result.code);
    if (result.code !== 0) return result;
    // Sequences stay as they are: other waiting transactions may have used later ones.
    this.#writeCheck(
      check,
      state.writes().filter(([key]) => !rewound.has(bytesToText(key))),
    );
    return result;
  }

  uncheck(tx: Bytes): void {
    const check = this.#check;
    if (check === undefined) return;
    const state = new Overlay(check.state);
    this.#machine.rewind(state, check.block, tx);
    this.#writeCheck(check, state.writes());
  }

  trial(isOver: () => boolean): (tx: Bytes, facts: TxFacts) => boolean {
    const newest = this.#store.latestHeightBlocks();
    if (this.#check === undefined || newest === undefined) return () => true;
    const { heightBlocks } = this.#check.block;
    const block = { ...this.#check.block, heightBlocks: heightBlocks > newest ? heightBlocks : newest + 1n };
    const state = new Overlay(this.#store.at(newest));
    const remaining = new Map<string, bigint>();
    const remainingOf = (address: string): bigint =>
      remaining.get(address) ?? this.#machine.upoktOf(state, block, address);
    let isRun = true;
    return (tx, facts) => {
      isRun &&= facts.offer.gas <= MAX_TRIAL_GAS && !isOver();
      if (isRun) {
        const result = this.#machine.runTx(state, block, "deliver", tx);
        // A transaction whose fee is paid has events, also when it fails.
        return result.code === 0 || result.events.length > 0;
      }
      const { feePayer, feeUpokt, spends, grantedSpends } = facts;
      if (grantedSpends.length > MAX_GRANTED_SPENDS) return false;
      const afterFee = remainingOf(feePayer) - feeUpokt;
      if (afterFee < 0n) return false;
      remaining.set(feePayer, afterFee);
      for (const [address, upokt] of spends) remaining.set(address, remainingOf(address) - upokt);
      for (const { account, upokt, grants } of grantedSpends) {
        // Anybody can name an account that granted nothing.
        if (this.#machine.areGranted(state, block, grants)) remaining.set(account, remainingOf(account) - upokt);
      }
      return true;
    };
  }

  #writeCheck(check: CheckState, writes: readonly StateChange[]): void {
    for (const [key, value] of writes) {
      if (value === undefined) check.state.delete(key);
      else check.state.set(key, value);
    }
    this.#observer?.wrote(writes);
  }

  #withinBlockGas(result: TxResult): TxResult {
    const most = this.#maxBlockGas;
    if (result.code !== 0 || most < 0n || result.gasWanted <= most) return result;
    const { fault } = fail(SDK.invalidGasLimit, `tx gas limit ${result.gasWanted} exceeds block max gas ${most}`);
    return { ...result, code: fault.code, codespace: fault.codespace, log: fault.text, events: [] };
  }

  #checkOn(check: CheckState, tx: Bytes, again: boolean): TxResult {
    const state = new Overlay(check.state);
    // What waits is asked whether the next block can take it; the SDK asks this of the newest block, and lets it fail there.
    const block = again ? { ...check.block, heightBlocks: check.block.heightBlocks + 1n } : check.block;
    const ran = this.#machine.runTx(state, block, again ? "recheck" : "check", tx);
    const result = this.#withinBlockGas(ran);
    if (result !== ran) return result;
    this.#observer?.wrote(state.writes());
    state.commitTo(check.state);
    return result;
  }

  /** Reports the mempool's state to an observer from now on, beginning with what it is. */
  observeChecks(observer: CheckObserver): void {
    this.#observer = observer;
    this.#reportCheck();
  }

  #reportCheck(): void {
    const stateHeightBlocks = this.#store.latestHeightBlocks();
    if (this.#check === undefined || stateHeightBlocks === undefined) return;
    const { block, state } = this.#check;
    this.#observer?.began({ stateHeightBlocks, block, writes: () => state.writes() });
  }

  factsOf(tx: Bytes): TxFacts | undefined {
    return this.#machine.factsOf(tx);
  }

  async simulate(tx: Bytes, client?: ClientKey): Promise<TxResult | undefined> {
    const simulate = (bytes: Bytes, maxGas: bigint): TxResult => this.#simulate(bytes, maxGas);
    return this.#simulations.sizeFault(tx) ?? this.#simulations.run(tx, simulate, client);
  }

  // On the mempool's state, as the SDK does it: who just sent a transaction can simulate the next one.
  #simulate(tx: Bytes, maxGas: bigint): TxResult {
    if (this.#check === undefined) return noState();
    const { state, block } = this.#check;
    const most = this.#maxBlockGas;
    return this.#machine.runTx(new Overlay(state), block, "simulate", tx, most >= 0n && most < maxGas ? most : maxGas);
  }

  /** Most gas of a block; -1: any. */
  get maxBlockGas(): bigint {
    return this.#maxBlockGas;
  }

  /** Maximum bytes of a block; -1: any. */
  get maxBlockBytes(): bigint {
    return this.#bounds.maxBlockBytes;
  }

  grpcQuery(path: string, request: Bytes, heightBlocks = 0n): GrpcAnswer {
    return this.#queries.grpcQuery(path, request, heightBlocks);
  }

  abciQuery(path: string, data: Bytes, heightBlocks = 0n): AppAnswer {
    return this.#queries.abciQuery(path, data, heightBlocks);
  }

  /**
   * The state after a block, the newest by default, as the `app_state` that makes it again, by module name.
   * @throws AppError HEIGHT_UNAVAILABLE
   */
  exportState(heightBlocks?: bigint): ExportedState {
    const height = heightBlocks ?? this.#store.latestHeightBlocks() ?? 0n;
    const reader = this.#store.at(height);
    const block = readBlockInfo(reader, this.chainId);
    return {
      heightBlocks: height,
      time: nsToRfc3339(block.timeNanos),
      appState: this.#machine.exportGenesis(reader, block),
    };
  }

  #runGenesis({ chainId, initialHeightBlocks, timeNanos, appState }: ChainStart): {
    readonly block: BlockInfo;
    readonly outcome: BlockOutcome;
  } {
    if (initialHeightBlocks < 1n) {
      throw new AppError("CONFIG_INVALID", { message: "The initial height of a genesis is at least 1." });
    }
    const block = { chainId, heightBlocks: initialHeightBlocks - 1n, timeNanos, hash: NOTHING, proposer: NOTHING };
    return { block, outcome: this.#machine.initGenesis(EMPTY, block, appState) };
  }

  #remakeCheck(): void {
    const newest = this.#store.latestHeightBlocks();
    if (newest === undefined || this.#start === undefined) return;
    const reader = this.#store.at(newest);
    const block = readBlockInfo(reader, this.chainId);
    // Height 0 is the genesis, where signatures and gas have other rules.
    const { initialHeightBlocks } = this.#start;
    const began = newest < initialHeightBlocks ? { ...block, heightBlocks: initialHeightBlocks } : block;
    this.#check = { block: began, state: new Overlay(reader) };
    this.#meter.stands(block, this.#store.earliestHeightBlocks());
    this.#rulesWatch.stands(this.#machine.rulesAhead(reader), newest);
    this.#reportCheck();
  }
}

function otherGenesis(known: StartRecord, genesis: ChainStart): AppError {
  const hint = known.chainId === genesis.chainId ? "" : ` (of chain "${known.chainId}")`;
  return new AppError("CONFIG_INVALID", {
    message: `The chain's store began with another genesis${hint} than that of chain "${genesis.chainId}".`,
  });
}

/** A node that joins has no state to check a transaction on, until its snapshot is there. */
function noState(): TxResult {
  const {
    code,
    codespace,
    text: log,
  } = fail(SDK.invalidRequest, "this node has no state yet; send to another one").fault;
  return { code, codespace, log, data: NOTHING, gasWanted: 0n, gasUsed: 0n, events: [] };
}
