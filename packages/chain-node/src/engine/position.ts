import { AppError } from "@turnpike/base";
import type { ValidatorUpdate } from "@turnpike/chain";
import type { Bytes, ChainStore } from "@turnpike/chain-store";
import {
  type BlockId,
  type BuiltBlock,
  type Commit,
  createValidatorSet,
  resultsHash,
  rotateProposer,
  updateValidatorSet,
  type ValidatorSet,
} from "@turnpike/cometbft";
import type { BlockResults } from "../types.ts";
import type { BlockStore } from "./block-store.ts";
import { damagedRecord } from "./record-errors.ts";
import { TABLES } from "./tx-places.ts";

/** The newest block, as the next one needs it. */
export interface LastBlock {
  readonly id: BlockId;
  readonly heightBlocks: bigint;
  readonly timeNs: bigint;
  readonly validators: ValidatorSet;
  readonly commit: Commit;
}

/** Where the chain stands: what the next block follows from (CometBFT's `state.State`). */
export interface Position {
  readonly nextHeightBlocks: bigint;
  /** Undefined before the first block. */
  readonly last: LastBlock | undefined;
  /** Who signs the next block, and the one after it. */
  readonly validators: ValidatorSet;
  readonly nextValidators: ValidatorSet;
  readonly appHash: Bytes;
  readonly lastResultsHash: Bytes;
}

/** The position before the first block. @throws AppError CONFIG_INVALID when the genesis names no fit validators */
export function firstPosition(
  initialHeightBlocks: bigint,
  genesis: { readonly appHash: Bytes; readonly validatorUpdates: readonly ValidatorUpdate[] },
): Position {
  const changes = genesis.validatorUpdates.map(({ publicKey, power }) => ({ publicKey, votingPower: power }));
  const created = createValidatorSet(changes);
  if (!created.ok) {
    const why = created.fault === "empty" ? "it names no validator" : `its validators do not fit (${created.fault})`;
    throw new AppError("CONFIG_INVALID", { message: `The genesis makes no chain: ${why}.` });
  }
  return {
    nextHeightBlocks: initialHeightBlocks,
    last: undefined,
    validators: created.set,
    nextValidators: rotateProposer(created.set),
    appHash: genesis.appHash,
    lastResultsHash: resultsHash([]),
  };
}

/**
 * The position after a block: changes of the validators count from the height after the next.
 * @throws AppError INTERNAL when the application's changes do not fit the set
 */
export function nextPosition(at: Position, built: BuiltBlock, commit: Commit, results: BlockResults): Position {
  const changes = results.validatorUpdates.map(({ publicKey, power }) => ({ publicKey, votingPower: power }));
  const changed = updateValidatorSet(at.nextValidators, changes);
  if (!changed.ok) {
    throw new AppError("INTERNAL", { message: `The changes of the validators do not fit: ${changed.fault}.` });
  }
  const { height: heightBlocks, timeNs } = built.block.header;
  return {
    nextHeightBlocks: heightBlocks + 1n,
    last: { id: built.id, heightBlocks, timeNs, validators: at.validators, commit },
    validators: at.nextValidators,
    nextValidators: rotateProposer(changed.set),
    appHash: results.appHash,
    lastResultsHash: resultsHash(results.txResults),
  };
}

// This engine leaves records with every block. Where it left some, it has driven the chain, and those of this block are lost.
function withoutBlock(store: ChainStore, heightBlocks: bigint): AppError {
  const isOwn = [TABLES.ids, TABLES.blocks, TABLES.hashes, TABLES.commit].some((table) => {
    for (const _ of store.records(table, { prefix: new Uint8Array(0) })) return true;
    return false;
  });
  return isOwn
    ? new AppError("CHAIN_STORE_DAMAGED", {
        message: `The chain's store has the state after block ${heightBlocks}, but the block itself is missing: it was lost, or CometBFT drove this chain on. Restore the store's folder from a copy.`,
      })
    : new AppError("CONFIG_INVALID", {
        message: `The chain's store has no block ${heightBlocks}, only its state: CometBFT has driven it. Set chain.engine: cometbft, or name another folder with --home.`,
      });
}

/**
 * The position after the newest block of a store.
 * @throws AppError CHAIN_STORE_DAMAGED, and CONFIG_INVALID when this engine did not write that block
 */
export function storedPosition(store: ChainStore, blocks: BlockStore, heightBlocks: bigint): Position {
  const stored = blocks.block(heightBlocks);
  if (stored === undefined) throw withoutBlock(store, heightBlocks);
  const results = blocks.results(heightBlocks);
  const seen = blocks.commit(heightBlocks);
  const [own, validators, nextValidators] = [0n, 1n, 2n].map((ahead) => blocks.validatorsAhead(heightBlocks + ahead));
  const appHash = store.appHash(heightBlocks);
  if (seen === undefined || seen.commit.height !== heightBlocks) throw damagedRecord("the newest commit");
  if (own === undefined || validators === undefined || nextValidators === undefined)
    throw damagedRecord("a validator set");
  if (results === undefined || appHash === undefined) throw damagedRecord("the newest results");
  return {
    nextHeightBlocks: heightBlocks + 1n,
    last: {
      id: stored.id,
      heightBlocks,
      timeNs: stored.block.header.timeNs,
      validators: own,
      commit: seen.commit,
    },
    validators,
    nextValidators,
    appHash,
    lastResultsHash: resultsHash(results.txResults),
  };
}
