import type { ConsensusMoment } from "@turnpike/chain-node";
import {
  BLOCK_ID_FLAG,
  type Commit,
  nsToRfc3339,
  type RpcJson,
  totalPower,
  type ValidatorSet,
  validatorToRpcJson,
} from "@turnpike/cometbft";
import { upperHex } from "./results-json.ts";

const NIL_VOTE = "nil-Vote";

// Six bytes, with zeros at the end.
function fingerprint(bytes: Uint8Array): string {
  return upperHex(bytes.slice(0, 6)).padEnd(12, "0");
}

// Who voted, in groups of ten, and which share of the power.
function bitArray(voted: readonly boolean[], set: ValidatorSet): string {
  const rows: string[] = [];
  for (let from = 0; from < voted.length; from += 100) {
    rows.push(
      voted
        .slice(from, from + 100)
        .map((bit) => (bit ? "x" : "_"))
        .join(""),
    );
  }
  const total = totalPower(set.validators);
  const power = set.validators.reduce((sum, { votingPower }, i) => (voted[i] === true ? sum + votingPower : sum), 0n);
  const share = total === 0n ? 0 : Number(power) / Number(total);
  return `BA{${voted.length}:${rows.join("")}} ${power}/${total} = ${share.toFixed(2)}`;
}

function validatorSetJson(set: ValidatorSet | undefined): RpcJson {
  if (set === undefined) return { validators: [], proposer: null };
  return { validators: set.validators.map(validatorToRpcJson), proposer: validatorToRpcJson(set.proposer) };
}

// The engine decides a block in one step: between steps no vote of the height that comes is known.
function roundVotesJson({ round, validators }: ConsensusMoment): RpcJson {
  const none = validators.validators.map(() => false);
  const votes = none.map(() => NIL_VOTE);
  const bits = bitArray(none, validators);
  return Array.from({ length: round + 1 }, (_, at) => ({
    round: at,
    prevotes: votes,
    prevotes_bit_array: bits,
    precommits: votes,
    precommits_bit_array: bits,
  }));
}

function lastCommitJson(commit: Commit, set: ValidatorSet): RpcJson {
  const { height, round, blockId, signatures } = commit;
  const votes = signatures.map(({ flag, validatorAddress, timeNs, signature }, i) => {
    if (flag === BLOCK_ID_FLAG.absent) return NIL_VOTE;
    const block = fingerprint(flag === BLOCK_ID_FLAG.commit ? blockId.hash : new Uint8Array(0));
    const place = `${height}/${round.toString().padStart(2, "0")}/SIGNED_MSG_TYPE_PRECOMMIT(Precommit)`;
    const marks = `${block} ${fingerprint(signature)} ${fingerprint(new Uint8Array(0))}`;
    return `Vote{${i}:${fingerprint(validatorAddress)} ${place} ${marks} @ ${nsToRfc3339(timeNs)}}`;
  });
  const voted = signatures.map(({ flag }) => flag !== BLOCK_ID_FLAG.absent);
  return { votes, votes_bit_array: bitArray(voted, set), peer_maj_23s: {} };
}

/** The round's state in short, as `consensus_state` shows it. */
export function roundStateSimpleJson(moment: ConsensusMoment): RpcJson {
  const { heightBlocks, round, step, startTimeNs, validators } = moment;
  const { address } = validators.proposer;
  return {
    "height/round/step": `${heightBlocks}/${round}/${step}`,
    start_time: nsToRfc3339(startTimeNs),
    proposal_block_hash: "",
    locked_block_hash: "",
    valid_block_hash: "",
    height_vote_set: roundVotesJson(moment),
    proposer: {
      address: upperHex(address),
      index: validators.validators.findIndex((validator) => Buffer.compare(validator.address, address) === 0),
    },
  };
}

/** The round's state in full, as `dump_consensus_state` shows it. */
export function roundStateJson(moment: ConsensusMoment): RpcJson {
  const { heightBlocks, round, step, startTimeNs, commitTimeNs, validators, lastValidators, lastCommit } = moment;
  return {
    height: heightBlocks.toString(),
    round,
    step,
    start_time: nsToRfc3339(startTimeNs),
    commit_time: nsToRfc3339(commitTimeNs),
    validators: validatorSetJson(validators),
    proposal: null,
    proposal_block: null,
    proposal_block_parts: null,
    locked_round: -1,
    locked_block: null,
    locked_block_parts: null,
    valid_round: -1,
    valid_block: null,
    valid_block_parts: null,
    votes: roundVotesJson(moment),
    commit_round: -1,
    last_commit:
      lastCommit === undefined || lastValidators === undefined ? null : lastCommitJson(lastCommit, lastValidators),
    last_validators: validatorSetJson(lastValidators),
    triggered_timeout_precommit: false,
  };
}
