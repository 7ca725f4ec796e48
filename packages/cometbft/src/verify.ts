import { bytesEqual } from "@turnpike/base";
import { checkBlock, checkCommit, checkHeader } from "./check.ts";
import { headerHash } from "./hashes.ts";
import type { Block, BlockId, Commit, Header, ValidatorSet } from "./types.ts";
import { validatorAt, validatorsHash } from "./validator-set.ts";
import { medianTimeNs, sameBlockId, verifyCommit } from "./votes.ts";

/** A header with the commit that makes it final, and who signed. */
export interface LightBlock {
  readonly header: Header;
  readonly commit: Commit;
  /** The set of the header's height. */
  readonly validators: ValidatorSet;
}

/** Whether blocks are right. */
export type BlockVerdict =
  | { readonly ok: true }
  | {
      readonly ok: false;
      /** For logs and people. */
      readonly fault: string;
    };

const RIGHT: BlockVerdict = { ok: true };
const wrong = (fault: string): BlockVerdict => ({ ok: false, fault });

/**
 * True when a light block proves itself: the header has its own block's hash, the set is the header's, and more than two
 * thirds of it signed. That the set is to be trusted is another matter: see {@link verifyNextHeader}.
 */
export function verifyLightBlock(chainId: string, light: LightBlock): BlockVerdict {
  const { header, commit, validators } = light;
  const fault = checkHeader(header) ?? checkCommit(commit);
  if (fault !== undefined) return wrong(fault);
  if (header.chainId !== chainId) return wrong("another chain's header");
  if (!bytesEqual(headerHash(header), commit.blockId.hash)) return wrong("the commit is of another block");
  if (!bytesEqual(header.validatorsHash, validatorsHash(validators))) return wrong("another validator set");
  // The commit's own id is taken: its hash is the header's, and only the signatures can vouch for its parts.
  const verdict = verifyCommit({ chainId, validators, blockId: commit.blockId, height: header.height, commit });
  return verdict.ok ? RIGHT : wrong(`commit: ${verdict.fault}`);
}

/** True when a light block proves itself and follows a trusted one directly. */
export function verifyNextHeader(chainId: string, trusted: LightBlock, next: LightBlock): BlockVerdict {
  const { header } = next;
  if (header.height !== trusted.header.height + 1n) return wrong("not the next height");
  if (!sameBlockId(header.lastBlockId, trusted.commit.blockId)) return wrong("follows another block");
  if (header.timeNs <= trusted.header.timeNs) return wrong("the time does not rise");
  if (!bytesEqual(header.validatorsHash, trusted.header.nextValidatorsHash))
    return wrong("an unexpected validator set");
  return verifyLightBlock(chainId, next);
}

/** What is known before a block, from the blocks before and the application. */
export interface BlockExpectation {
  readonly chainId: string;
  readonly appVersion: bigint;
  readonly initialHeight: bigint;
  /** Time of the genesis; the first block has it. */
  readonly genesisTimeNs: bigint;
  /** Undefined before the first block. */
  readonly last:
    | { readonly id: BlockId; readonly height: bigint; readonly timeNs: bigint; readonly validators: ValidatorSet }
    | undefined;
  readonly validators: ValidatorSet;
  readonly nextValidators: ValidatorSet;
  readonly consensusHash: Uint8Array;
  readonly appHash: Uint8Array;
  readonly lastResultsHash: Uint8Array;
}

function checkTime(block: Block, expected: BlockExpectation): string | undefined {
  const { header, lastCommit } = block;
  const { last, chainId, genesisTimeNs } = expected;
  if (last === undefined) {
    if (header.timeNs !== genesisTimeNs) return "wrong time of the first block";
    return lastCommit.signatures.length === 0 ? undefined : "the first block has a commit";
  }
  const check = { chainId, validators: last.validators, blockId: last.id, height: last.height, commit: lastCommit };
  const verdict = verifyCommit(check);
  if (!verdict.ok) return `last commit: ${verdict.fault}`;
  if (header.timeNs <= last.timeNs) return "the time does not rise";
  return header.timeNs === medianTimeNs(lastCommit, last.validators) ? undefined : "not the median time of the votes";
}

/** True when a block is right by itself and the next one: CometBFT 0.38, `state/validation.go`. */
export function verifyNextBlock(block: Block, expected: BlockExpectation): BlockVerdict {
  const { header } = block;
  const { last } = expected;
  const fault = checkBlock(block);
  if (fault !== undefined) return wrong(fault);
  if (header.version.app !== expected.appVersion) return wrong("wrong version of the application");
  if (header.chainId !== expected.chainId) return wrong("another chain's block");
  if (header.height !== (last === undefined ? expected.initialHeight : last.height + 1n)) return wrong("wrong height");
  const noId =
    header.lastBlockId.hash.length + header.lastBlockId.parts.hash.length + header.lastBlockId.parts.total === 0;
  if (last === undefined ? !noId : !sameBlockId(header.lastBlockId, last.id)) return wrong("follows another block");
  const pairs: readonly (readonly [string, Uint8Array, Uint8Array])[] = [
    ["application", header.appHash, expected.appHash],
    ["consensus parameters", header.consensusHash, expected.consensusHash],
    ["results", header.lastResultsHash, expected.lastResultsHash],
    ["validators", header.validatorsHash, validatorsHash(expected.validators)],
    ["next validators", header.nextValidatorsHash, validatorsHash(expected.nextValidators)],
  ];
  const pair = pairs.find(([, found, right]) => !bytesEqual(found, right));
  if (pair !== undefined) return wrong(`wrong hash of the ${pair[0]}`);
  if (validatorAt(expected.validators, header.proposerAddress) === undefined) return wrong("unknown proposer");
  const timeFault = checkTime(block, expected);
  return timeFault === undefined ? RIGHT : wrong(timeFault);
}
