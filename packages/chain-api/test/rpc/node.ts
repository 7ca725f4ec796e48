import { readFileSync } from "node:fs";
import { base64ToBytes, bytesEqual, bytesToHex, hexToBytes, utf8ToBytes } from "@turnpike/base";
import type { AppAnswer, ChainEvent, GenesisDocument, TxResult } from "@turnpike/chain";
import {
  type BlockReads,
  type BlockResults,
  type EmbeddedNode,
  eventMapOfBlock,
  eventMapOfTx,
  matchesEvents,
  type NodeEvent,
  parseEventQuery,
  type SearchPage,
  type SearchResult,
  type StoredBlock,
  type StoredTx,
  type Submission,
} from "@turnpike/chain-node";
import type { BuiltBlock, Commit } from "@turnpike/cometbft";
import { sha256 } from "@turnpike/crypto";
import { CHAIN_ID, commitOf, nextBlock, testValidators } from "@turnpike/testkit/cometbft";
import { must } from "@turnpike/testkit/fixtures";

const NONE = new Uint8Array(0);

/** What a check or a delivery of the stand-in gives. */
export function txResult(parts: Partial<TxResult> = {}): TxResult {
  return { code: 0, codespace: "", log: "", data: NONE, gasWanted: 0n, gasUsed: 0n, events: [], ...parts };
}

/** A transaction of a block, and what became of it. */
export interface TestTx {
  readonly bytes: Uint8Array;
  readonly result: TxResult;
}

/** Reads a file of the recorded chain. */
export function readRecordedChain(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../../../test/spec/recorded-chain/${name}`, import.meta.url), "utf8"));
}

interface Made {
  readonly built: BuiltBlock;
  readonly commit: Commit;
  readonly stored: StoredBlock;
  readonly results: BlockResults;
  readonly txs: readonly StoredTx[];
}

/** How a stand-in answers. */
export interface TestNodeOptions {
  /** What checks give; code 0 by default. */
  readonly checks?: (tx: Uint8Array) => TxResult;
  /** What deliveries give. */
  readonly deliveries?: (tx: Uint8Array) => TxResult;
  readonly query?: (path: string, data: Uint8Array, heightBlocks: bigint) => AppAnswer;
  /** True: a block is made soon after a transaction was taken. */
  readonly autoBlocks?: boolean;
  readonly genesis?: Partial<GenesisDocument>;
}

function pageOf<T>(all: readonly T[], { order, skip, take }: SearchPage): SearchResult<T> {
  const ordered = order === "asc" ? all : all.toReversed();
  return { items: ordered.slice(skip, skip + take), total: all.length };
}

/** A stand-in for the embedded engine: true blocks of one validator with true signatures, and no state behind them. */
export class TestNode implements EmbeddedNode {
  readonly moniker = "validator1";
  readonly nodeId = "ba4965abf592981d578f634ab52d8fe0789e4db0";
  readonly genesis: GenesisDocument;
  readonly validators = testValidators([1023n]);
  readonly validatorKey = must(this.validators.set.validators[0]).publicKey;
  private readonly options: TestNodeOptions;
  private readonly made: Made[] = [];
  private readonly listeners = new Set<(event: NodeEvent) => void>();
  private pool: Uint8Array[] = [];
  private readonly seen = new Set<string>();

  constructor(options: TestNodeOptions = {}) {
    this.options = options;
    const recorded = readRecordedChain("genesis.json") as GenesisDocument;
    this.genesis = { ...recorded, chain_id: CHAIN_ID, ...options.genesis };
  }

  get listenerCount(): number {
    return this.listeners.size;
  }

  get application(): EmbeddedNode["application"] {
    const { options } = this;
    const latestHeightBlocks = (): bigint => this.blocks.latestHeightBlocks();
    const unknown = (heightBlocks: bigint): AppAnswer => {
      const log = "unknown query path: unknown request";
      return { code: 6, codespace: "sdk", log, value: NONE, heightBlocks };
    };
    return {
      chainId: CHAIN_ID,
      version: "0.1.35",
      latestHeightBlocks,
      latestAppHash: () => sha256(utf8ToBytes(latestHeightBlocks().toString())),
      grpcQuery: () => ({ ok: false, status: 12, text: "unknown", heightBlocks: 0n }),
      abciQuery: (path, data, height = 0n) => options.query?.(path, data, height) ?? unknown(0n),
      simulate: async () => txResult(),
    };
  }

  readonly blocks: BlockReads = {
    latestHeightBlocks: () => BigInt(this.made.length),
    baseHeightBlocks: () => (this.made.length === 0 ? 0n : 1n),
    block: (height) => this.at(height)?.stored,
    blockByHash: (hash) => this.made.find(({ built }) => bytesEqual(built.id.hash, hash))?.stored,
    results: (height) => this.at(height)?.results,
    commit: (height) => {
      const found = this.at(height);
      return found && { commit: found.commit, canonical: height < BigInt(this.made.length) };
    },
    validators: (height) => (height <= BigInt(this.made.length) + 1n ? this.validators.set : undefined),
    tx: (hash) => this.made.flatMap(({ txs }) => txs).find((tx) => bytesEqual(tx.hash, hash)),
    searchTxs: async (text, page) => {
      const parsed = parseEventQuery(text);
      const all = this.made.flatMap(({ txs }) => txs);
      return pageOf(parsed.ok ? all.filter((tx) => matchesEvents(parsed.query, eventMapOfTx(tx))) : [], page);
    },
    searchBlocks: async (text, page) => {
      const parsed = parseEventQuery(text);
      const fits = ({ stored, results }: Made): boolean => {
        const height = ["block.height", [results.heightBlocks.toString()]] as const;
        return parsed.ok && matchesEvents(parsed.query, new Map([...eventMapOfBlock(stored, results), height]));
      };
      return pageOf(
        this.made.filter(fits).map(({ stored }) => stored),
        page,
      );
    },
  };

  readonly mempool: EmbeddedNode["mempool"] = {
    numTxs: () => this.pool.length,
    sizeBytes: () => this.pool.reduce((sum, tx) => sum + tx.length, 0),
    txs: (limit) => this.pool.slice(0, limit),
  };

  /** Makes the next block; without transactions given, of those that wait. */
  produce(txs?: readonly TestTx[], events: readonly ChainEvent[] = []): StoredBlock {
    const taken =
      txs ?? this.pool.map((bytes) => ({ bytes, result: this.options.deliveries?.(bytes) ?? this.check(bytes) }));
    if (txs === undefined) this.pool = [];
    const built = nextBlock(
      this.validators,
      this.made.at(-1),
      taken.map(({ bytes }) => bytes),
    );
    const heightBlocks = built.block.header.height;
    const stored = { block: built.block, id: built.id, sizeBytes: built.bytes.length };
    const storedTxs = taken.map(({ bytes, result }, index) => ({
      hash: sha256(bytes),
      heightBlocks,
      index,
      bytes,
      result,
    }));
    const txResults = taken.map(({ result }) => result);
    const appHash = sha256(utf8ToBytes(heightBlocks.toString()));
    const results = { heightBlocks, txResults, events, validatorUpdates: [], appHash };
    this.made.push({ built, commit: commitOf(this.validators, built), stored, results, txs: storedTxs });
    this.tell({ type: "NewBlock", block: stored, results });
    this.tell({ type: "NewBlockHeader", block: stored, numTxs: taken.length });
    this.tell({ type: "NewBlockEvents", block: stored, results });
    for (const tx of storedTxs) this.tell({ type: "Tx", tx });
    return stored;
  }

  /** Tells the listeners. */
  tell(event: NodeEvent): void {
    for (const listener of this.listeners) listener(event);
  }

  moment(): ReturnType<EmbeddedNode["moment"]> {
    const last = this.made.at(-1);
    const { set } = this.validators;
    return {
      heightBlocks: BigInt(this.made.length) + 1n,
      round: 0,
      step: 1,
      startTimeNs: 1_700_000_100_706_391_992n,
      commitTimeNs: 1_700_000_099_706_391_992n,
      validators: set,
      lastValidators: last && set,
      lastCommit: last?.commit,
    };
  }

  submit(tx: Uint8Array): Submission {
    const hash = sha256(tx);
    const key = bytesToHex(hash);
    if (this.seen.has(key)) return { kind: "known", hash };
    const result = this.check(tx);
    if (result.code === 0) {
      this.seen.add(key);
      this.pool.push(tx);
      if (this.options.autoBlocks === true) setImmediate(() => this.produce());
    }
    return { kind: "checked", hash, result };
  }

  check(tx: Uint8Array): TxResult {
    return this.options.checks?.(tx) ?? txResult();
  }

  listen(listener: (event: NodeEvent) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  private at(height: bigint): Made | undefined {
    return this.made[Number(height) - 1];
  }
}

/** A result as the recorded JSON has it. */
export interface TxResultJson {
  readonly code: number;
  readonly data: string | null;
  readonly log: string;
  readonly gas_wanted: string;
  readonly gas_used: string;
  readonly events: readonly ChainEvent[];
  readonly codespace: string;
}

/** Reads a recorded result. */
export function readTxResult(json: TxResultJson): TxResult {
  return {
    code: json.code,
    codespace: json.codespace,
    log: json.log,
    data: must(base64ToBytes(json.data ?? "")),
    gasWanted: BigInt(json.gas_wanted),
    gasUsed: BigInt(json.gas_used),
    events: json.events,
  };
}

/** Hex digits as bytes. */
export const fromHex = (text: string): Uint8Array => must(hexToBytes(text));
/** Base64 as bytes. */
export const fromBase64 = (text: string): Uint8Array => must(base64ToBytes(text));
