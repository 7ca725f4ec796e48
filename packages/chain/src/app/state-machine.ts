import { AppError, isAppError, isRecord } from "@turnpike/base";
import type { Bytes, StateChange } from "@turnpike/chain-store";
import { decodeMessage, encodeMessage, fromApiJson, toApiJson, type upgrade } from "@turnpike/proto";
import { areGranted } from "../modules/authz/exec.ts";
import { spendableUpokt } from "../modules/bank/balances.ts";
import { plannedUpgrade } from "../modules/upgrade/plan.ts";
import { parseAddress } from "../state/addresses.ts";
import { runPart } from "../state/block-parts.ts";
import { type BlockInfo, type ChainEvent, type Context, type ExecutionMode, withAttribute } from "../state/context.ts";
import { resultBytes } from "../state/event-bytes.ts";
import { GasMeter } from "../state/gas.ts";
import { listType } from "../state/genesis-types.ts";
import type {
  GenesisList,
  MessageHandler,
  Module,
  ModuleGenesis,
  QueryAnswer,
  QueryHandler,
  ValidatorUpdate,
} from "../state/module.ts";
import type { TxResult } from "../state/outcome.ts";
import { Overlay, type StateReads, type StateView } from "../state/overlay.ts";
import { valuesFault } from "../state/read-message.ts";
import { type RuleSet, type Rules, rulesOf } from "../state/rules.ts";
import type { NamedGrant } from "../state/spending.ts";
import { type DecodedTx, decodeTx } from "../tx/decode.ts";
import { DecodedTxs } from "../tx/decoded-txs.ts";
import type { GasPrice } from "../tx/fees.ts";
import { rewind } from "../tx/rewind.ts";
import { runTx } from "../tx/run-tx.ts";
import { factsOf, type TxFacts } from "../tx/tx-facts.ts";
import { VerifiedSignatures } from "../tx/verified-signatures.ts";
import { MAX_BLOCK_RESULT_BYTES, unrunResult } from "./block-bounds.ts";
import { RULE_SETS } from "./rule-sets.ts";

export interface StateMachineOptions {
  /** What the mempool asks for; every node may have its own. */
  readonly gasPrices: readonly GasPrice[];
  /**
   * Names of the modules whose block begins, and ends, in this order; by default that of the modules. One that is not
   * named has no such step.
   */
  readonly order?: { readonly beginBlock: readonly string[]; readonly endBlock: readonly string[] };
  /** Rules that blocks can be run by, in their order; by default all that this program has. */
  readonly rules?: readonly RuleSet[];
  /** Why no chain begins with an `app_state`, beside what its modules find; none by default. */
  readonly genesisFault?: (appState: Readonly<Record<string, unknown>>) => string | undefined;
}

/** By what rules the next block is run, and the upgrade that is planned. */
export interface RulesAhead {
  readonly rules: Rules;
  readonly plan: upgrade.Plan | undefined;
}

/** What one block, or the genesis, does to the state. */
export interface BlockOutcome {
  readonly changes: readonly StateChange[];
  /** Events of the beginning and the end of the block; those of transactions are in their results. */
  readonly events: readonly ChainEvent[];
  readonly results: readonly TxResult[];
  readonly validatorUpdates: readonly ValidatorUpdate[];
}

/** Signatures that are remembered, some 200 bytes each: twice what a mempool holds. */
const MOST_VERIFIED = 10_000;
const NO_BLOCK: BlockInfo = {
  chainId: "",
  heightBlocks: 0n,
  timeNanos: 0n,
  hash: new Uint8Array(0),
  proposer: new Uint8Array(0),
};
const UNKNOWN_METHOD: QueryAnswer<Bytes> = { ok: false, status: 12, text: "Not Implemented" };

/**
 * The pure state machine: a state and a block give changes, events and results. It holds no state of its own (what it
 * caches of signatures and of transactions changes no result), knows no clock and does no I/O, so that the same blocks
 * give the same bytes on every machine.
 */
export class StateMachine {
  readonly #modules: readonly Module[];
  readonly #beginning: readonly Module[];
  readonly #ending: readonly Module[];
  readonly #handlers: ReadonlyMap<string, MessageHandler>;
  readonly #queries: ReadonlyMap<string, QueryHandler>;
  readonly #gasPrices: readonly GasPrice[];
  /** Rules that blocks can be run by, in their order. */
  readonly rules: readonly RuleSet[];
  readonly #genesisFault: NonNullable<StateMachineOptions["genesisFault"]>;
  readonly #decoded = new DecodedTxs();
  readonly #verified = new VerifiedSignatures({ maxKept: MOST_VERIFIED });

  /** @param modules in the order in which the genesis reaches them */
  constructor({ gasPrices, order, rules = RULE_SETS, genesisFault }: StateMachineOptions, modules: readonly Module[]) {
    this.rules = rules;
    this.#modules = modules;
    this.#beginning = order === undefined ? modules : inOrder(modules, order.beginBlock);
    this.#ending = order === undefined ? modules : inOrder(modules, order.endBlock);
    this.#gasPrices = gasPrices;
    this.#genesisFault = genesisFault ?? (() => undefined);
    this.#handlers = new Map(modules.flatMap((module) => Object.entries(module.messages ?? {})));
    this.#queries = new Map(modules.flatMap((module) => Object.entries(module.queries ?? {})));
  }

  /**
   * Fills an empty state from `app_state`, by module name.
   * @throws AppError CONFIG_INVALID when a module's part is not valid
   */
  initGenesis(empty: StateReads, block: BlockInfo, appState: Readonly<Record<string, unknown>>): BlockOutcome {
    const fault = this.#genesisFault(appState);
    if (fault !== undefined) throw new AppError("CONFIG_INVALID", { message: `The genesis is not valid: ${fault}.` });
    const state = new Overlay(empty);
    const events: ChainEvent[] = [];
    const ctx: Context = { block, mode: "genesis", state, gas: new GasMeter(), events };
    const validatorUpdates: ValidatorUpdate[] = [];
    const start = { ...block, heightBlocks: 0n };
    const runTx = (bytes: Bytes): TxResult => this.runTx(state, start, "deliver", bytes);
    for (const module of this.#modules) {
      for (const update of initModule(ctx, module, appState[module.name], runTx)) validatorUpdates.push(update);
    }
    return { changes: state.changes(), events, results: [], validatorUpdates };
  }

  /** The `app_state` that makes this state again, by module name. */
  exportGenesis(reader: StateReads, block: BlockInfo): Record<string, unknown> {
    const ctx = contextOn(new Overlay(reader), block, "query");
    return Object.fromEntries(
      this.#modules.flatMap(({ name, genesis }) =>
        genesis === undefined ? [] : [[name, exportedModule(ctx, genesis)]],
      ),
    );
  }

  /**
   * Runs a block on the state after the one before it. What fails in its begin or end is left out, and reported by an event.
   * @throws AppError when this node must stop: see {@link runPart}
   */
  runBlock(reader: StateReads, block: BlockInfo, transactions: readonly Bytes[]): BlockOutcome {
    const state = new Overlay(reader);
    const begin = contextOn(state, block, "block");
    for (const module of this.#beginning) {
      if (module.beginBlock === undefined) continue;
      runPart(begin, { part: "begin_block", item: module.name }, (branch) => module.beginBlock?.(branch));
    }
    const results = this.#runTxs(state, block, transactions);
    const end = contextOn(state, block, "block");
    const validatorUpdates: ValidatorUpdate[] = [];
    for (const module of this.#ending) {
      if (module.endBlock === undefined) continue;
      const ended = runPart(end, { part: "end_block", item: module.name }, (branch) => module.endBlock?.(branch));
      for (const update of (ended.ok ? ended.value : undefined) ?? []) validatorUpdates.push(update);
    }
    const events = [
      ...withAttribute(begin.events, "mode", "BeginBlock"),
      ...withAttribute(end.events, "mode", "EndBlock"),
    ];
    return { changes: state.changes(), events, results, validatorUpdates };
  }

  #runTxs(state: StateView, block: BlockInfo, transactions: readonly Bytes[]): TxResult[] {
    let bytes = 0;
    return transactions.map((tx) => {
      if (bytes > MAX_BLOCK_RESULT_BYTES) return unrunResult();
      const result = this.runTx(state, block, "deliver", tx);
      bytes += resultBytes(result);
      return result;
    });
  }

  /**
   * Runs one transaction on a state that may be written. The mempool keeps an {@link Overlay} over the newest block for
   * `check` and `recheck`; for `simulate` any overlay does.
   * @param simulationGas most gas of a simulation; undefined: any
   */
  runTx(
    state: StateView,
    block: BlockInfo,
    mode: Extract<ExecutionMode, "check" | "recheck" | "deliver" | "simulate">,
    bytes: Bytes,
    simulationGas?: bigint,
  ): TxResult {
    const { verify } = this.#verified;
    const opts = {
      handlers: this.#handlers,
      decoded: this.#decoded,
      gasPrices: this.#gasPrices,
      verify,
      simulationGas,
    };
    return runTx(state, block, mode, bytes, opts);
  }

  /** Properties of a transaction that a mempool orders by; undefined when it cannot be read. */
  factsOf(bytes: Bytes): TxFacts | undefined {
    const facts = this.#decoded.facts(bytes);
    if (facts !== undefined) return facts;
    const decoded = this.#decodedOf(bytes);
    return decoded === undefined ? undefined : factsOf(decoded);
  }

  /** True when all of these grants hold in a state. */
  areGranted(state: StateView, block: BlockInfo, grants: readonly NamedGrant[]): boolean {
    return areGranted(contextOn(state, block, "query"), grants);
  }

  /** Coins of an account that can pay a fee. */
  upoktOf(state: StateView, block: BlockInfo, address: string): bigint {
    const parsed = parseAddress(address);
    return parsed.ok ? (spendableUpokt(contextOn(state, block, "query"), parsed.value) ?? 0n) : 0n;
  }

  /** Undoes in the mempool's state that a transaction used its signers' sequences, or its timeout. */
  rewind(state: StateView, block: BlockInfo, bytes: Bytes): void {
    const decoded = this.#decoded.outline(bytes) ?? this.#decodedOf(bytes);
    if (decoded !== undefined) rewind(contextOn(state, block, "check"), decoded);
  }

  #decodedOf(bytes: Bytes): DecodedTx | undefined {
    const checked = this.#decoded.find(bytes, "check");
    if (checked !== undefined) return checked;
    const decoded = decodeTx(bytes, this.#handlers);
    return decoded.ok ? decoded.value : undefined;
  }

  /** Rules and planned upgrade in the state after a block. */
  rulesAhead(reader: StateReads): RulesAhead {
    const ctx = contextOn(new Overlay(reader), NO_BLOCK, "query");
    return { rules: rulesOf(ctx), plan: plannedUpgrade(ctx) };
  }

  /** True when a module answers this gRPC path. */
  answers(path: string): boolean {
    return this.#queries.has(path);
  }

  /** Answers a gRPC path on the state after a block. A path that no module has is status 12. */
  query(reader: StateReads, block: BlockInfo, path: string, request: Bytes): QueryAnswer<Bytes> {
    const handler = this.#queries.get(path);
    if (handler === undefined) return UNKNOWN_METHOD;
    const decoded = decodeMessage(handler.input, request);
    if (!decoded.ok) return { ok: false, status: 3, text: decoded.fault };
    const answer = handler.answer(contextOn(new Overlay(reader), block, "query"), decoded.message);
    return answer.ok ? { ok: true, value: encodeMessage(handler.output, answer.value) } : answer;
  }
}

function exportedModule(ctx: Context, { message, lists }: ModuleGenesis): Record<string, unknown> {
  const json: unknown = message === undefined ? {} : toApiJson(message.schema, message.export(ctx));
  const entries = lists.flatMap((list) => {
    const values = Array.from(list.export(ctx));
    return values.length === 0 ? [] : [[list.field, listType(list.entry).write(values)]];
  });
  return { ...(json as Record<string, unknown>), ...Object.fromEntries(entries) };
}

/** The real chain's part of a module's JSON: without the lists that this chain has beside it. */
function withoutLists(json: unknown, lists: readonly GenesisList[]): unknown {
  if (!isRecord(json)) return json;
  return Object.fromEntries(Object.entries(json).filter(([name]) => lists.every(({ field }) => field !== name)));
}

/** Fills the state with the real chain's part of a module's genesis. */
function initMessage(
  ctx: Context,
  { message, lists }: ModuleGenesis,
  json: unknown,
  invalid: (why: string) => AppError,
): readonly ValidatorUpdate[] {
  const part = withoutLists(json, lists);
  if (message === undefined) {
    const [foreign] = isRecord(part) ? Object.keys(part) : ["not an object"];
    if (foreign !== undefined) throw invalid(`unknown field ${JSON.stringify(foreign)}`);
    return [];
  }
  const read = fromApiJson(message.schema, part);
  if (!read.ok) throw invalid(read.fault);
  const fault = valuesFault(message.schema, read.message);
  // The module's own words come first: they name the entry.
  const updates = message.init(ctx, read.message) ?? [];
  if (fault !== undefined) throw invalid(fault);
  return updates;
}

// A genesis that makes a module throw is refused like one that it finds invalid, so that no block meets it.
function initModule(
  ctx: Context,
  { name, genesis }: Module,
  json: unknown,
  runTx: (bytes: Bytes) => TxResult,
): readonly ValidatorUpdate[] {
  if (genesis === undefined) return [];
  const invalid = (why: string, cause?: unknown): AppError =>
    new AppError("CONFIG_INVALID", { message: `app_state.${name} is not valid: ${why}.`, cause });
  try {
    const updates = [initMessage(ctx, genesis, json ?? {}, invalid)];
    for (const list of genesis.lists) {
      const entries = isRecord(json) ? json[list.field] : undefined;
      if (entries === undefined || entries === null) continue;
      const read = listType(list.entry).read(entries);
      if (!read.ok) throw invalid(`${list.field}: ${read.fault}`);
      updates.push(list.init(ctx, read.value, runTx) ?? []);
    }
    return updates.flat();
  } catch (cause) {
    if (isAppError(cause, "CONFIG_INVALID")) throw cause;
    throw invalid(cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function contextOn(state: StateView, block: BlockInfo, mode: ExecutionMode): Context {
  return { block, mode, state, gas: new GasMeter(), events: [] };
}

function inOrder(modules: readonly Module[], names: readonly string[]): Module[] {
  return names.map((name) => {
    const found = modules.find((module) => module.name === name);
    if (found === undefined) throw new AppError("INTERNAL", { detail: { unknownModule: name } });
    return found;
  });
}
