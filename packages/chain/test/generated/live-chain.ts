import assert from "node:assert/strict";
import { signTx } from "@turnpike/chain-client";
import type { StateChange } from "@turnpike/chain-store";
import { createValidatorSet, rfc3339ToNs, updateValidatorSet, type ValidatorSet } from "@turnpike/cometbft";
import { sha256 } from "@turnpike/crypto";
import type { Any } from "@turnpike/proto";
import { pocketMachine } from "../../src/app/pocket-machine.ts";
import type { BlockOutcome } from "../../src/app/state-machine.ts";
import { getAccount } from "../../src/modules/auth/accounts.ts";
import { parseAddress } from "../../src/state/addresses.ts";
import type { BlockInfo, Context } from "../../src/state/context.ts";
import { GasMeter } from "../../src/state/gas.ts";
import type { MessageHandler, ValidatorUpdate } from "../../src/state/module.ts";
import { Overlay } from "../../src/state/overlay.ts";
import { type Actor, GENESIS, SIGNERS } from "./actors.ts";
import { type WorkMessage, WorkPlan } from "./honest-work.ts";
import { assertResults, assertState } from "./invariants.ts";

/** A state without entries. */
export const EMPTY_STATE = { get: () => undefined, range: () => [] };
/** The chain's machine, which all generated histories share: it holds no state. */
export const { machine, modules } = pocketMachine({ gasPrices: [] });
/** Handlers of all messages, by type URL. */
export const HANDLERS: ReadonlyMap<string, MessageHandler> = new Map(
  modules.flatMap(({ messages = {} }) => Object.entries(messages)),
);

const CHAIN_ID = "pocket";
/** Keys of the state that hold money or say where it is. */
const MONEY_PREFIXES = ["bank/", "application/", "gateway/", "supplier/", "staking/"].map((text) => Buffer.from(text));
const startsWith = (key: Uint8Array, prefix: Uint8Array): boolean => prefix.every((byte, index) => key[index] === byte);

const BLOCK_NANOS = 1_000_000_000n;
const START_NANOS = rfc3339ToNs(GENESIS.genesis_time) ?? 0n;

/** A transaction before it is signed. */
export interface UnsignedStep {
  readonly signer: Actor;
  readonly messages: readonly Any[];
  readonly gasLimit: bigint;
  readonly fee: readonly { readonly denom: string; readonly amount: bigint }[];
  readonly memo: string;
  /** Seconds from the block's time to the timeout of an unordered transaction; undefined for an ordered one. */
  readonly unorderedSeconds?: number;
}

/** A position in a chain's life: what a block needs beside the state. */
interface Position {
  readonly heightBlocks: bigint;
  readonly timeNanos: bigint;
  readonly validators: ValidatorSet;
}

const changesOf = (updates: readonly ValidatorUpdate[]) =>
  updates.map(({ publicKey, power }) => ({ publicKey, votingPower: power }));

/**
 * A chain in memory that is driven block by block and checked after each: the state machine's own blocks, and the rules of
 * CometBFT for the validators that they name. Block hashes depend on the height alone, so that all branches of a state have
 * the same sessions.
 */
export class LiveChain {
  readonly state: Overlay;
  readonly #plan: WorkPlan;
  #position: Position;

  private constructor(state: Overlay, position: Position, plan = new WorkPlan()) {
    this.state = state;
    this.#position = position;
    this.#plan = plan;
  }

  /** Starts a chain. @throws AppError CONFIG_INVALID when the genesis is refused */
  static start(appState: Readonly<Record<string, unknown>>, heightBlocks = 0n, timeNanos = START_NANOS): LiveChain {
    const block = blockAt(heightBlocks, timeNanos, new Uint8Array(0));
    const { changes, validatorUpdates } = machine.initGenesis(EMPTY_STATE, block, appState);
    const created = createValidatorSet(changesOf(validatorUpdates));
    const state = new Overlay(EMPTY_STATE);
    write(state, changes);
    assert.ok(created.ok, `validators of the genesis: ${created.ok ? "" : created.fault}`);
    const chain = new LiveChain(state, { heightBlocks, timeNanos, validators: created.set });
    assertState(chain.context());
    return chain;
  }

  /** Height of the newest block. */
  get heightBlocks(): bigint {
    return this.#position.heightBlocks;
  }

  /** Time of the newest block. */
  get timeNanos(): bigint {
    return this.#position.timeNanos;
  }

  /** A chain that goes on from this state, which must not change meanwhile. */
  branch(): LiveChain {
    return new LiveChain(new Overlay(this.state), this.#position, new WorkPlan(this.#plan));
  }

  /** A branch that holds its state itself, so that the chain below may go on. */
  copy(): LiveChain {
    const state = new Overlay(EMPTY_STATE);
    for (const [key, value] of this.state.range({ prefix: new Uint8Array(0) })) state.set(key, value);
    return new LiveChain(state, this.#position, new WorkPlan(this.#plan));
  }

  /** The block that comes next. */
  nextBlock(jumpNanos = BLOCK_NANOS): BlockInfo {
    const { heightBlocks, timeNanos, validators } = this.#position;
    return blockAt(heightBlocks + 1n, timeNanos + jumpNanos, validators.proposer.address);
  }

  /** A context that reads the newest state, in the next block. */
  context(): Context {
    return { block: this.nextBlock(), mode: "query", state: new Overlay(this.state), gas: new GasMeter(), events: [] };
  }

  /** Signs a transaction for the next block. @param ahead transactions of the same signer that come before it there */
  sign({ signer, unorderedSeconds, ...unsigned }: UnsignedStep, ahead = 0n): Uint8Array {
    const key = SIGNERS[signer];
    const address = parseAddress(key.address);
    const account = address.ok ? getAccount(this.context(), address.value) : undefined;
    const { accountNumber = 0n, sequence = 0n } = account?.base ?? {};
    const timeoutNanos = this.nextBlock().timeNanos + BigInt(unorderedSeconds ?? 0) * BLOCK_NANOS;
    const order =
      unorderedSeconds === undefined
        ? ({ kind: "ordered", sequence: sequence + ahead } as const)
        : ({ kind: "unordered", timeoutNanos } as const);
    return signTx({ ...unsigned, chainId: CHAIN_ID, accountNumber, order }, key);
  }

  /**
   * Runs the next block and checks what it leaves.
   * @param jumpNanos time since the newest block
   * @throws AssertionError when something that must hold does not, and whatever the block throws
   */
  run(txs: readonly Uint8Array[], jumpNanos = BLOCK_NANOS): BlockOutcome {
    const block = this.nextBlock(jumpNanos);
    const outcome = machine.runBlock(this.state, block, txs);
    assert.equal(outcome.results.length, txs.length);
    assertResults(outcome);
    const updated = updateValidatorSet(this.#position.validators, changesOf(outcome.validatorUpdates));
    assert.ok(updated.ok, `CometBFT ends at these validator updates: ${updated.ok ? "" : updated.fault}`);
    write(this.state, outcome.changes);
    const { heightBlocks, timeNanos } = block;
    this.#position = { heightBlocks, timeNanos, validators: updated.set };
    if (outcome.changes.some(([key]) => MONEY_PREFIXES.some((prefix) => startsWith(key, prefix)))) {
      assertState(this.context());
    }
    this.#plan.note(this.context(), heightBlocks);
    return outcome;
  }

  /** Claims and proofs that suppliers send in the next block. */
  work(): WorkMessage[] {
    return this.#plan.work(this.context());
  }

  /** Runs a transaction as the mempool and as a simulation do, on the newest state: neither may throw. */
  tryOut(tx: Uint8Array): void {
    for (const mode of ["check", "simulate"] as const) {
      machine.runTx(new Overlay(this.state), this.nextBlock(), mode, tx);
    }
  }
}

function blockAt(heightBlocks: bigint, timeNanos: bigint, proposer: Uint8Array): BlockInfo {
  return { chainId: CHAIN_ID, heightBlocks, timeNanos, hash: sha256(Buffer.from(`block ${heightBlocks}`)), proposer };
}

function write(state: Overlay, changes: readonly StateChange[]): void {
  for (const [key, value] of changes) {
    if (value === undefined) state.delete(key);
    else state.set(key, value);
  }
}
