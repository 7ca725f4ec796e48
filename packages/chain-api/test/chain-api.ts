import { readFileSync } from "node:fs";
import {
  type AppAnswer,
  type Application,
  type BlockInfo,
  type GenesisDocument,
  type GrpcAnswer,
  Overlay,
  pocketMachine,
  type StateMachine,
  type TxResult,
} from "@turnpike/chain";
import type {
  BlockResults,
  ChainSource,
  NodeInfo,
  SearchPage,
  SearchResult,
  StoredBlock,
  StoredTx,
  Submission,
} from "@turnpike/chain-node";
import type { Bytes } from "@turnpike/chain-store";
import {
  buildBlock,
  EMPTY_COMMIT,
  rfc3339ToNs,
  type ValidatorSet,
  validatorsHash,
  ZERO_BLOCK_ID,
} from "@turnpike/cometbft";
import { sha256 } from "@turnpike/crypto";
import { testValidators } from "@turnpike/testkit/cometbft";
import { type RecordedTx, readRecordedTx } from "@turnpike/testkit/fixtures";
import { type ApiSurface, apiSurface } from "../src/services/base-services.ts";

const ROOT = new URL("../../../test/spec/recorded-chain/", import.meta.url);
const NOTHING = new Uint8Array(0);
const EMPTY = { get: () => undefined, range: () => [] };
const START_NS = rfc3339ToNs("2026-11-21T14:11:10Z") ?? 0n;
const GAS_PRICES = [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }];

/** Height of the newest block of the test's chain. */
export const LATEST = 1833n;

/** A recorded file, read as JSON. */
export function recordedJson<T>(path: string): T {
  return JSON.parse(readFileSync(new URL(path, ROOT), "utf8")) as T;
}

const timeOf = (heightBlocks: bigint): bigint => START_NS + heightBlocks * 1_000_000_000n + 7n;

/** The state machine on the recorded genesis, as if nothing had happened since. */
export class TestApplication implements Application {
  readonly chainId = "pocket";
  readonly version = "0.1.35";
  /** Heights at which a query was asked. */
  readonly asked: bigint[] = [];
  readonly #machine: StateMachine;
  readonly #state: Overlay;

  constructor(machine: StateMachine) {
    this.#machine = machine;
    const genesis = recordedJson<GenesisDocument>("genesis.json");
    this.#state = new Overlay(EMPTY);
    const { changes } = machine.initGenesis(EMPTY, this.block(0n), genesis.app_state);
    for (const [key, value] of changes) if (value !== undefined) this.#state.set(key, value);
  }

  block(heightBlocks: bigint): BlockInfo {
    return { chainId: this.chainId, heightBlocks, timeNanos: timeOf(heightBlocks), hash: NOTHING, proposer: NOTHING };
  }

  latestHeightBlocks(): bigint {
    return LATEST;
  }

  latestAppHash(): Bytes {
    return sha256(NOTHING);
  }

  grpcQuery(path: string, request: Bytes, heightBlocks = LATEST): GrpcAnswer {
    this.asked.push(heightBlocks);
    return { ...this.#machine.query(this.#state, this.block(heightBlocks), path, request), heightBlocks };
  }

  abciQuery(_path: string, _data: Bytes, _heightBlocks?: bigint): AppAnswer {
    return { code: 0, codespace: "sdk", log: "", value: Buffer.from(this.version), heightBlocks: LATEST };
  }

  async simulate(tx: Bytes): Promise<TxResult> {
    return this.#machine.runTx(new Overlay(this.#state), this.block(LATEST), "simulate", tx);
  }

  check(tx: Bytes): TxResult {
    return this.#machine.runTx(new Overlay(this.#state), this.block(LATEST), "check", tx);
  }
}

function storedTx(recorded: RecordedTx): StoredTx | undefined {
  const response = recorded.result?.tx_response;
  if (response === undefined) return undefined;
  const bytes = Buffer.from(recorded.tx_bytes, "base64");
  const { code, codespace, raw_log: log, events } = response;
  return {
    hash: sha256(bytes),
    heightBlocks: BigInt(response.height),
    index: 0,
    bytes,
    result: {
      code,
      codespace,
      log,
      data: Buffer.from(response.data, "hex"),
      gasWanted: 500_000n,
      gasUsed: BigInt(response.gas_used),
      events,
    },
  };
}

const TX_NAMES = [
  "bank-send-appg1",
  "bank-send-plain",
  "application-stake-app6",
  "application-stake-app1",
  "bank-multi-send",
];

/** Blocks that are made when they are asked for, with a few recorded transactions. */
export class TestSource implements ChainSource {
  readonly txs: readonly StoredTx[] = TX_NAMES.flatMap((name) => storedTx(readRecordedTx(name)) ?? []);
  readonly sent: Bytes[] = [];
  readonly #application: TestApplication;
  readonly #set: ValidatorSet = testValidators([1023n]).set;

  constructor(application: TestApplication) {
    this.#application = application;
  }

  async nodeInfo(): Promise<NodeInfo> {
    const [listenAddr, rpcAddr] = ["tcp://127.0.0.1:26656", "tcp://127.0.0.1:26657"];
    return {
      nodeId: "0".repeat(40),
      moniker: "validator1",
      network: "pocket",
      version: "0.38.19",
      listenAddr,
      rpcAddr,
    };
  }

  async latestHeightBlocks(): Promise<bigint> {
    return LATEST;
  }

  async block(height = LATEST): Promise<StoredBlock | undefined> {
    if (height < 1n || height > LATEST) return undefined;
    const hash = validatorsHash(this.#set);
    const built = buildBlock({
      header: {
        chainId: "pocket",
        height,
        timeNs: timeOf(height),
        lastBlockId: ZERO_BLOCK_ID,
        validatorsHash: hash,
        nextValidatorsHash: hash,
        consensusHash: hash,
        appHash: hash,
        lastResultsHash: hash,
        proposerAddress: this.#set.proposer.address,
      },
      txs: this.txs.filter(({ heightBlocks }) => heightBlocks === height).map(({ bytes }) => bytes),
      lastCommit: EMPTY_COMMIT,
    });
    return { block: built.block, id: built.id, sizeBytes: built.bytes.length };
  }

  async results(): Promise<BlockResults | undefined> {
    return undefined;
  }

  async validators(): Promise<ValidatorSet | undefined> {
    return this.#set;
  }

  async tx(hash: Bytes): Promise<StoredTx | undefined> {
    return this.txs.find((tx) => Buffer.compare(tx.hash, hash) === 0);
  }

  async searchTxs(query: string, { skip, take }: SearchPage): Promise<SearchResult<StoredTx>> {
    const [, height] = /^tx\.height=(\d+)$/.exec(query) ?? [];
    const found = this.txs.filter(({ heightBlocks }) =>
      height === undefined ? !query.includes("nobody") : heightBlocks === BigInt(height),
    );
    return { items: found.slice(skip, skip + take), total: found.length };
  }

  async submit(tx: Bytes): Promise<Submission> {
    const hash = sha256(tx);
    if (this.sent.some((known) => Buffer.compare(known, tx) === 0)) return { kind: "known", hash };
    this.sent.push(tx);
    return { kind: "checked", hash, result: this.#application.check(tx) };
  }
}

/** All that a server of the API needs, on the recorded genesis. */
export function testApi(): {
  readonly application: TestApplication;
  readonly source: TestSource;
  readonly options: { readonly surface: ApiSurface; readonly gasPrices: typeof GAS_PRICES };
} {
  const { machine, modules } = pocketMachine({ gasPrices: GAS_PRICES });
  const application = new TestApplication(machine);
  const source = new TestSource(application);
  return { application, source, options: { surface: apiSurface(modules), gasPrices: GAS_PRICES } };
}

/** What differs between the form of a recorded JSON value and another; empty lists, texts and nulls fit all. */
export function shapeFaults(recorded: unknown, got: unknown, at = "$"): string[] {
  if (recorded === null || got === null) return [];
  if (Array.isArray(recorded) || Array.isArray(got)) {
    if (!Array.isArray(recorded) || !Array.isArray(got)) return [`${at}: a list on one side`];
    if (recorded.length === 0) return [];
    return got.flatMap((item, i) => {
      const tries = recorded.map((each) => shapeFaults(each, item, `${at}[${i}]`));
      return tries.toSorted((a, b) => a.length - b.length)[0] ?? [];
    });
  }
  if (typeof recorded !== typeof got) return [`${at}: recorded ${typeof recorded}, got ${typeof got}`];
  if (typeof recorded !== "object" || typeof got !== "object") return [];
  const [a, b] = [recorded as Record<string, unknown>, got as Record<string, unknown>];
  if (a["@type"] !== b["@type"]) return [];
  const names = (from: Record<string, unknown>): string[] => Object.keys(from).filter((name) => name !== "$note");
  const missing = names(a).filter((name) => !(name in b));
  const more = "$note" in a ? [] : names(b).filter((name) => !(name in a));
  return [
    ...missing.map((name) => `${at}.${name}: missing`),
    ...more.map((name) => `${at}.${name}: never recorded`),
    ...names(a).flatMap((name) => (name in b ? shapeFaults(a[name], b[name], `${at}.${name}`) : [])),
  ];
}
