import { AppError, bytesEqual } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import {
  type BuiltBlock,
  buildBlock,
  type Commit,
  commitSigOf,
  consensusHash,
  EMPTY_COMMIT,
  medianTimeNs,
  rotateProposer,
  signVote,
  totalPower,
  type ValidatorSet,
  VOTE_TYPE,
  validatorAt,
  validatorsHash,
  voteTimeNs,
  ZERO_BLOCK_ID,
} from "@turnpike/cometbft";
import { type Ed25519Signer, validatorKeyAddress } from "@turnpike/crypto";
import type { EngineParams } from "./engine-params.ts";
import type { Position } from "./position.ts";

export interface BlockMakerOptions {
  readonly chainId: string;
  /** The first block has it. */
  readonly genesisTimeNs: bigint;
  readonly params: EngineParams;
}

const MAX_ROUNDS = 1000;

/**
 * Builds and signs blocks with the one key that is here.
 *
 * Never two blocks of one height: a signature leaves this process only in a commit that was written in the same
 * transaction of the store as its block, its results and its state. So the newest committed block is the signing state: what
 * was signed and not written before a crash no one has seen, and what was written is what the chain goes on from. One
 * process at a time has the store. An older copy of the store in place of a newer one is found by `LastSignState`.
 */
export class BlockMaker {
  readonly #opts: BlockMakerOptions;
  readonly #signer: Ed25519Signer;
  readonly #address: Uint8Array;
  readonly #consensusHash: Uint8Array;

  constructor(opts: BlockMakerOptions, { signer }: { readonly signer: Ed25519Signer }) {
    this.#opts = opts;
    this.#signer = signer;
    this.#address = validatorKeyAddress(signer.publicKey);
    this.#consensusHash = consensusHash(opts.params);
  }

  /** Address of the key that signs, 20 bytes. */
  get address(): Uint8Array {
    return this.#address;
  }

  /** True when headers of these parameters have this hash. */
  hasParams(consensusHashOfHeader: Uint8Array): boolean {
    return bytesEqual(this.#consensusHash, consensusHashOfHeader);
  }

  /** @throws AppError CONFIG_INVALID when this key alone does not make the blocks of a set final */
  checkPower(set: ValidatorSet): void {
    const own = validatorAt(set, this.#address);
    const why =
      own === undefined
        ? "is no validator of this chain"
        : own.votingPower <= (totalPower(set.validators) * 2n) / 3n
          ? "has not more than two thirds of the voting power"
          : undefined;
    if (why === undefined) return;
    const address = Buffer.from(this.#address).toString("hex").toUpperCase();
    throw new AppError("CONFIG_INVALID", {
      message: `The embedded engine cannot make blocks: its validator key (address ${address}) ${why}.`,
    });
  }

  /** The next block with these transactions. */
  build(at: Position, txs: readonly Bytes[]): BuiltBlock {
    const { chainId, genesisTimeNs, params } = this.#opts;
    const { last } = at;
    const timeNs = last === undefined ? genesisTimeNs : medianTimeNs(last.commit, last.validators);
    if (timeNs === undefined) throw new AppError("INTERNAL", { detail: { noVotes: true } });
    return buildBlock({
      header: {
        chainId,
        height: at.nextHeightBlocks,
        timeNs,
        lastBlockId: last?.id ?? ZERO_BLOCK_ID,
        validatorsHash: validatorsHash(at.validators),
        nextValidatorsHash: validatorsHash(at.nextValidators),
        consensusHash: this.#consensusHash,
        appHash: at.appHash,
        lastResultsHash: at.lastResultsHash,
        proposerAddress: this.#address,
      },
      appVersion: params.appVersion,
      txs,
      lastCommit: last?.commit ?? EMPTY_COMMIT,
    });
  }

  /** The commit for a block, signed now. */
  commit(at: Position, built: BuiltBlock, nowNs: bigint): Commit {
    this.checkPower(at.validators);
    const { height, timeNs } = built.block.header;
    const round = this.#round(at.validators);
    const vote = {
      type: VOTE_TYPE.precommit,
      height,
      round,
      blockId: built.id,
      timeNs: voteTimeNs(nowNs, timeNs),
    };
    const signatures = at.validators.validators.map(({ address }, index) =>
      commitSigOf(
        bytesEqual(address, this.#address) ? signVote(this.#opts.chainId, vote, index, this.#signer) : undefined,
      ),
    );
    return { height, round, blockId: built.id, signatures };
  }

  // Others who would propose are not there: as CometBFT does, a round later the next one's turn comes.
  #round(set: ValidatorSet): number {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const turned = round === 0 ? set : rotateProposer(set, round);
      if (bytesEqual(turned.proposer.address, this.#address)) return round;
    }
    throw new AppError("INTERNAL", { detail: { neverProposes: true } });
  }
}
