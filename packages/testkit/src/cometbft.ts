import {
  type BlockExpectation,
  type BuiltBlock,
  buildBlock,
  type Commit,
  commitSigOf,
  consensusHash,
  createValidatorSet,
  EMPTY_COMMIT,
  type LightBlock,
  medianTimeNs,
  resultsHash,
  signVote,
  type ValidatorSet,
  VOTE_TYPE,
  validatorsHash,
  ZERO_BLOCK_ID,
} from "@turnpike/cometbft";
import { createEd25519Signer, type Ed25519Signer, sha256, validatorKeyAddress } from "@turnpike/crypto";
import { must } from "./fixtures.ts";

/** The test chain's id. */
export const CHAIN_ID = "test-chain";
const GENESIS_TIME_NS = 1_700_000_000_000_000_001n;
const RESULTS = resultsHash([]);
const PARAMS = consensusHash({ maxBytes: 1_000_000n, maxGas: -1n });
const APP_HASH = sha256(Uint8Array.of(7));

/** Validators with their keys. */
export interface TestValidators {
  readonly set: ValidatorSet;
  /** In the set's order. */
  readonly signers: readonly Ed25519Signer[];
}

/** Validators with these powers. */
export function testValidators(powers: readonly bigint[]): TestValidators {
  const signers = powers.map((_, i) => createEd25519Signer(sha256(Uint8Array.of(i))));
  const result = createValidatorSet(signers.map(({ publicKey }, i) => ({ publicKey, votingPower: powers[i] ?? 0n })));
  const set = must(result.ok ? result.set : undefined);
  const ordered = set.validators.map(({ address }) =>
    must(signers.find(({ publicKey }) => Buffer.compare(validatorKeyAddress(publicKey), address) === 0)),
  );
  return { set, signers: ordered };
}

/** How a validator votes: for the block, for none, not at all. */
export type Way = "commit" | "nil" | "absent";

/** The commit of a block, where the validators vote in these ways (by default all for it), some ms after the block. */
export function commitOf(validators: TestValidators, built: BuiltBlock, ways: readonly Way[] = []): Commit {
  const { height, timeNs } = built.block.header;
  const signatures = validators.signers.map((signer, i) => {
    const way = ways[i] ?? "commit";
    if (way === "absent") return commitSigOf(undefined);
    const blockId = way === "nil" ? ZERO_BLOCK_ID : built.id;
    const content = {
      type: VOTE_TYPE.precommit,
      height,
      round: 0,
      blockId,
      timeNs: timeNs + BigInt(i + 1) * 1_000_000n,
    };
    return commitSigOf(signVote(CHAIN_ID, content, i, signer));
  });
  return { height, round: 0, blockId: built.id, signatures };
}

/** The block after another, or the first one. */
export function nextBlock(
  validators: TestValidators,
  last: { readonly built: BuiltBlock; readonly commit: Commit } | undefined,
  txs: readonly Uint8Array[] = [],
): BuiltBlock {
  const { set } = validators;
  const hash = validatorsHash(set);
  return buildBlock({
    header: {
      chainId: CHAIN_ID,
      height: (last?.built.block.header.height ?? 0n) + 1n,
      timeNs: last === undefined ? GENESIS_TIME_NS : must(medianTimeNs(last.commit, set)),
      lastBlockId: last?.built.id ?? ZERO_BLOCK_ID,
      validatorsHash: hash,
      nextValidatorsHash: hash,
      consensusHash: PARAMS,
      appHash: APP_HASH,
      lastResultsHash: RESULTS,
      proposerAddress: set.proposer.address,
    },
    txs,
    lastCommit: last?.commit ?? EMPTY_COMMIT,
  });
}

/** What is expected of the block after another, or of the first one. */
export function expectationAfter({ set }: TestValidators, last: BuiltBlock | undefined): BlockExpectation {
  const header = last?.block.header;
  return {
    chainId: CHAIN_ID,
    appVersion: 0n,
    initialHeight: 1n,
    genesisTimeNs: GENESIS_TIME_NS,
    last: last && header && { id: last.id, height: header.height, timeNs: header.timeNs, validators: set },
    validators: set,
    nextValidators: set,
    consensusHash: PARAMS,
    appHash: APP_HASH,
    lastResultsHash: RESULTS,
  };
}

/** A block with its commit and signers, as a light client gets it. */
export function lightOf({ set }: TestValidators, built: BuiltBlock, commit: Commit): LightBlock {
  return { header: built.block.header, commit, validators: set };
}
