import type { Clock, FaultPoints, Log, Metrics } from "@turnpike/base";
import type { ChainApp, GenesisDocument, TxFault, TxResult } from "@turnpike/chain";
import { type Bytes, type ChainStore, StatePruner } from "@turnpike/chain-store";
import {
  type BuiltBlock,
  type Commit,
  MAX_BLOCK_BYTES,
  txHash,
  type ValidatorSet,
  ZERO_TIME_NS,
} from "@turnpike/cometbft";
import { Mempool, type MempoolOptions } from "../mempool/mempool.ts";
import type { BlockResults, ConsensusMoment, EmbeddedNode, NodeEvent, StoredBlock, Submission } from "../types.ts";
import type { BlockMaker } from "./block-maker.ts";
import { blockRecords } from "./block-records.ts";
import type { BlockStore } from "./block-store.ts";
import { ClockWatch } from "./clock-watch.ts";
import type { EngineParams } from "./engine-params.ts";
import type { EventIndexer } from "./event-indexer.ts";
import { HeldBlocks } from "./held-blocks.ts";
import type { LastSignState } from "./last-sign-state.ts";
import { paced, type Wait } from "./pacer.ts";
import { nextPosition, type Position } from "./position.ts";
import { PowerGuard } from "./power-guard.ts";

export interface EmbeddedEngineOptions {
  readonly genesis: GenesisDocument;
  readonly params: EngineParams;
  readonly moniker: string;
  readonly nodeId: string;
  readonly validatorKey: Bytes;
  /** Undefined: blocks are made by {@link EmbeddedEngine.produceBlock} alone. */
  readonly blockIntervalMs: number | undefined;
  /** States that are kept; undefined: all of them. */
  readonly keepStatesBlocks: number | undefined;
  readonly mempool: MempoolOptions;
}

export interface EmbeddedEngineModules {
  readonly application: ChainApp;
  readonly store: ChainStore;
  readonly blocks: BlockStore;
  readonly maker: BlockMaker;
  readonly position: Position;
  readonly clock: Clock;
  /** As for {@link ClockWatch}. */
  readonly uptimeMs: () => number;
  readonly wait: Wait;
  readonly log: Log;
  readonly faults: FaultPoints;
  /** Undefined: nothing guards against an older copy of the store. */
  readonly signed: LastSignState | undefined;
  /** Room on the store's disk; undefined where it is not known. */
  readonly freeBytes: () => number | undefined;
  readonly metrics: Metrics;
  readonly indexer: EventIndexer;
  /** Closed after the last block. */
  readonly owned: AsyncDisposableStack;
}

const NS_PER_MS = 1_000_000n;
// CometBFT 0.38, `types/block.go`: what a block has beside its transactions, at most.
const OVERHEAD_BYTES = 11n + 626n + 94n;
const VOTE_BYTES = 111n;

/** One validator in this process: mempool, blocks, and the events of both. */
export class EmbeddedEngine implements EmbeddedNode {
  readonly application: ChainApp;
  readonly genesis: GenesisDocument;
  readonly blocks: BlockStore;
  readonly mempool: Mempool;
  readonly moniker: string;
  readonly nodeId: string;
  readonly validatorKey: Bytes;
  /** Resolves when the node is closed; rejects when it can make no more blocks. */
  readonly ended: Promise<void>;
  readonly #opts: EmbeddedEngineOptions;
  readonly #store: ChainStore;
  readonly #maker: BlockMaker;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #faults: FaultPoints;
  readonly #owned: AsyncDisposableStack;
  readonly #pruner: StatePruner;
  readonly #listeners = new Set<(event: NodeEvent) => void>();
  readonly #stop = new AbortController();
  readonly #signed: LastSignState | undefined;
  readonly #held: HeldBlocks;
  readonly #watch: ClockWatch;
  readonly #guard: PowerGuard;
  readonly #indexer: EventIndexer;
  #position: Position;
  #nextTimeNs: bigint;
  #producing: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;
  #settleFault: { readonly cause: unknown } | undefined;

  constructor(opts: EmbeddedEngineOptions, modules: EmbeddedEngineModules) {
    const { application, store, blocks, maker, position, clock, log, faults, metrics, owned, wait } = modules;
    this.#opts = opts;
    this.genesis = opts.genesis;
    this.moniker = opts.moniker;
    this.nodeId = opts.nodeId;
    this.validatorKey = opts.validatorKey;
    this.application = application;
    this.blocks = blocks;
    this.#store = store;
    this.#maker = maker;
    this.#position = position;
    this.#clock = clock;
    this.#log = log;
    this.#faults = faults;
    this.#owned = owned;
    this.#signed = modules.signed;
    this.#indexer = modules.indexer;
    this.#held = new HeldBlocks({
      nextHeightBlocks: () => this.#position.nextHeightBlocks,
      freeBytes: modules.freeBytes,
      signal: this.#stop.signal,
      log,
    });
    this.#watch = new ClockWatch({ newestTimeNs: position.last?.timeNs }, { clock, uptimeMs: modules.uptimeMs, log });
    this.#pruner = new StatePruner({ keepStatesBlocks: opts.keepStatesBlocks }, { store, log });
    this.#nextTimeNs = this.#nowNs();
    this.#guard = new PowerGuard({
      address: maker.address,
      validators: () => this.#position.nextValidators,
      waits: (hash) => this.mempool.has(hash),
    });
    this.mempool = new Mempool(opts.mempool, {
      check: (tx, kind) => (kind === "again" ? application.check(tx, true) : this.#firstCheck(tx, kind)),
      uncheck: (tx) => application.uncheck(tx),
      factsOf: (tx) => application.factsOf(tx),
      trial: (isOver) => application.trial(isOver),
      maxDataBytes: () => this.#maxDataBytes(),
      metrics,
    });
    const { blockIntervalMs } = opts;
    const running =
      blockIntervalMs === undefined
        ? Promise.resolve()
        : paced(blockIntervalMs, () => this.#tick(blockIntervalMs), this.#stop.signal, { clock, wait });
    this.ended = this.#endOf(running);
    // Awaiting it is optional: a rejection that is not awaited must not end the process.
    this.ended.catch(() => undefined);
  }

  submit(tx: Bytes): Submission {
    return this.mempool.submit(tx);
  }

  check(tx: Bytes): TxResult {
    this.mempool.prepare(tx);
    const fault = this.#guard.refusal(tx);
    if (fault !== undefined) return refusedTx(fault);
    const result = this.application.check(tx, false);
    if (result.code === 0) this.mempool.noteCheckOnly(tx);
    return result;
  }

  listen(listener: (event: NodeEvent) => void): () => void {
    const own = (event: NodeEvent): void => listener(event);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  moment(): ConsensusMoment {
    const { nextHeightBlocks, last, validators } = this.#position;
    return {
      heightBlocks: nextHeightBlocks,
      round: 0,
      step: 1,
      startTimeNs: this.#nextTimeNs,
      commitTimeNs: last === undefined ? ZERO_TIME_NS : (votedAt(last.commit) ?? last.timeNs),
      validators,
      lastValidators: last?.validators,
      lastCommit: last?.commit,
    };
  }

  /**
   * Makes the next block of what waits in the mempool, writes it and publishes its events.
   * @throws AppError of the store, and CONFIG_INVALID when the key has lost its power
   */
  produceBlock(): Promise<StoredBlock> {
    const made = this.#producing.then(() => this.#produce());
    this.#producing = made.catch(() => undefined);
    return made;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= (async () => {
      this.#stop.abort();
      await this.ended.catch(() => undefined);
      await this.#producing;
      await this.mempool.settle(this.#stop.signal).catch(() => undefined);
      await this.#indexer[Symbol.asyncDispose]();
      await this.#pruner[Symbol.asyncDispose]();
      this.#listeners.clear();
      await this.#owned[Symbol.asyncDispose]();
    })();
    return this.#closing;
  }

  #firstCheck(tx: Bytes, kind: "new" | "replacement"): TxResult {
    const fault = this.#guard.refusal(tx);
    if (fault !== undefined) return refusedTx(fault);
    const result = kind === "new" ? this.application.check(tx, false) : this.application.checkReplacement(tx);
    if (result.code === 0) this.#guard.accepted(tx);
    return result;
  }

  async #produce(): Promise<StoredBlock> {
    this.#stop.signal.throwIfAborted();
    if (this.#settleFault !== undefined) throw this.#settleFault.cause;
    const at = this.#position;
    this.#maker.checkPower(at.validators);
    const built = this.#maker.build(at, this.mempool.reap(this.#opts.params.maxGas));
    await this.#faults.reach("embedded.built");
    const results = this.#run(built);
    await this.#faults.reach("embedded.ran");
    const commit = this.#maker.commit(at, built, msToNs(this.#watch.nowMs(built.block.header.timeNs)));
    const next = nextPosition(at, built, commit, results);
    const stored: StoredBlock = { block: built.block, id: built.id, sizeBytes: built.bytes.length };
    const records = blockRecords(this.#store, { stored, results, commit, validators: newSets(at, next) });
    await this.application.commit(records);
    this.#position = next;
    this.blocks.remember(stored);
    this.#indexer.committed(stored, results);
    // At once: what is checked from now on is checked on the state after the block, and must not be checked again.
    this.mempool.update(built.block.txs, results.txResults);
    await this.#faults.reach("embedded.committed");
    const { height: heightBlocks, chainId } = stored.block.header;
    await this.#signed?.write({ chainId, address: this.#maker.address, heightBlocks, hash: stored.id.hash });
    for (const event of blockEvents(stored, results)) this.#publish(event);
    this.#pruner.committed(next.nextHeightBlocks - 1n);
    const settling = this.mempool.settle(this.#stop.signal);
    // A block at its time comes before the checks of a full mempool: it takes what is checked until then.
    if (this.#opts.blockIntervalMs === undefined) await settling;
    else void settling.catch((cause: unknown) => this.#settleFailed(cause));
    return stored;
  }

  // The next block ends the node with it, as a fault of the store does.
  #settleFailed(cause: unknown): void {
    this.#settleFault ??= { cause };
  }

  #run(built: BuiltBlock): BlockResults {
    const { header, txs } = built.block;
    const block = {
      chainId: header.chainId,
      heightBlocks: header.height,
      timeNanos: header.timeNs,
      hash: built.id.hash,
      proposer: header.proposerAddress,
    };
    const { outcome, appHash } = this.application.run(block, txs);
    const { results: txResults, events, validatorUpdates } = outcome;
    return { heightBlocks: header.height, txResults, events, validatorUpdates, appHash };
  }

  async #tick(intervalMs: number): Promise<void> {
    this.#nextTimeNs = this.#nowNs() + BigInt(Math.round(intervalMs)) * NS_PER_MS;
    await this.#held.attempt(() => this.produceBlock());
  }

  async #endOf(running: Promise<void>): Promise<void> {
    try {
      await running;
    } catch (cause) {
      this.#log.error({ cause, heightBlocks: `${this.#position.nextHeightBlocks}` }, "no more blocks can be made");
      throw cause;
    }
    if (!this.#stop.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#stop.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }

  #publish(event: NodeEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (cause) {
        this.#log.error({ cause, type: event.type }, "a listener failed");
      }
    }
  }

  #maxDataBytes(): bigint {
    const { maxBytes } = this.#opts.params;
    const whole = maxBytes < 0n ? BigInt(MAX_BLOCK_BYTES) : maxBytes;
    return whole - OVERHEAD_BYTES - VOTE_BYTES * BigInt(this.#position.validators.validators.length);
  }

  #nowNs(): bigint {
    return msToNs(this.#clock.nowMs());
  }
}

const msToNs = (timeMs: number): bigint => BigInt(Math.round(timeMs * 1000)) * 1000n;

const refusedTx = ({ code, codespace, text: log }: TxFault): TxResult => {
  return { code, codespace, log, data: new Uint8Array(0), gasWanted: 0n, gasUsed: 0n, events: [] };
};

const votedAt = ({ signatures }: Commit): bigint | undefined =>
  signatures.find(({ signature }) => signature.length > 0)?.timeNs;

/** The events of a block, in CometBFT's order. */
function* blockEvents(block: StoredBlock, results: BlockResults): Generator<NodeEvent> {
  const { header, txs } = block.block;
  yield { type: "NewBlock", block, results };
  yield { type: "NewBlockHeader", block, numTxs: txs.length };
  yield { type: "NewBlockEvents", block, results };
  for (const [index, bytes] of txs.entries()) {
    const result = results.txResults[index];
    if (result === undefined) continue;
    yield { type: "Tx", tx: { hash: txHash(bytes), heightBlocks: header.height, index, bytes, result } };
  }
  if (results.validatorUpdates.length > 0) yield { type: "ValidatorSetUpdates", updates: results.validatorUpdates };
}

// The first block also brings the sets that the genesis made.
function newSets(at: Position, next: Position): ReadonlyMap<bigint, ValidatorSet> {
  const height = at.nextHeightBlocks;
  const sets = new Map([[height + 2n, next.nextValidators]]);
  if (at.last === undefined) sets.set(height, at.validators).set(height + 1n, at.nextValidators);
  return sets;
}
