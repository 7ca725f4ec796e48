import { base64ToBytes, hexToBytes, isRecord } from "@turnpike/base";
import type { ChainEvent, TxResult, ValidatorUpdate } from "@turnpike/chain";
import {
  type Block,
  type BlockId,
  type Commit,
  type DuplicateVoteEvidence,
  type Header,
  rfc3339ToNs,
  type Validator,
  type Vote,
} from "@turnpike/cometbft";
import { unreachable } from "./comet-rpc.ts";

/**
 * One value of CometBFT's JSON. Reading it as what it is not throws AppError CHAIN_UNREACHABLE: the other side is not what
 * it should be.
 */
export class RpcValue {
  readonly #value: unknown;
  readonly #path: string;

  constructor(value: unknown, path: string) {
    this.#value = value;
    this.#path = path;
  }

  /** A member of the object; one that is not there is nothing. */
  at(name: string): RpcValue {
    const value = isRecord(this.#value) ? this.#value[name] : undefined;
    return new RpcValue(value, `${this.#path}.${name}`);
  }

  /** Null, or not there. */
  get isNothing(): boolean {
    return this.#value === null || this.#value === undefined;
  }

  /** The items; none when it is nothing, as Go writes an empty list. */
  items(): RpcValue[] {
    if (this.isNothing) return [];
    if (!Array.isArray(this.#value)) throw this.#fault("a list");
    return this.#value.map((item, i) => new RpcValue(item, `${this.#path}[${i}]`));
  }

  text(): string {
    if (this.isNothing) return "";
    if (typeof this.#value !== "string") throw this.#fault("a text");
    return this.#value;
  }

  /** A 64-bit number, which is a text, or a small one; 0 when it is nothing. */
  integer(): bigint {
    if (this.isNothing) return 0n;
    const text = typeof this.#value === "number" ? `${this.#value}` : this.#value;
    if (typeof text !== "string" || !/^-?\d{1,20}$/.test(text)) throw this.#fault("a whole number");
    return BigInt(text);
  }

  number(): number {
    return Number(this.integer());
  }

  boolean(): boolean {
    return this.#value === true;
  }

  hex(): Uint8Array {
    const bytes = hexToBytes(this.text());
    if (bytes === undefined) throw this.#fault("hex digits");
    return bytes;
  }

  base64(): Uint8Array {
    const bytes = base64ToBytes(this.text());
    if (bytes === undefined) throw this.#fault("base64");
    return bytes;
  }

  timeNs(): bigint {
    const timeNs = rfc3339ToNs(this.text());
    if (timeNs === undefined) throw this.#fault("a time");
    return timeNs;
  }

  oneOf<T extends number>(allowed: readonly T[]): T {
    const value = this.number();
    const found = allowed.find((item) => item === value);
    if (found === undefined) throw this.#fault(`one of ${allowed.join(", ")}`);
    return found;
  }

  #fault(wanted: string): Error {
    return unreachable(`CometBFT's answer is not as it should be: ${this.#path} is not ${wanted}.`);
  }
}

/** Reads a block id. */
export function readBlockId(json: RpcValue): BlockId {
  const parts = json.at("parts");
  return { hash: json.at("hash").hex(), parts: { total: parts.at("total").number(), hash: parts.at("hash").hex() } };
}

/** Reads a header. */
export function readHeader(json: RpcValue): Header {
  const version = json.at("version");
  return {
    version: { block: version.at("block").integer(), app: version.at("app").integer() },
    chainId: json.at("chain_id").text(),
    height: json.at("height").integer(),
    timeNs: json.at("time").timeNs(),
    lastBlockId: readBlockId(json.at("last_block_id")),
    lastCommitHash: json.at("last_commit_hash").hex(),
    dataHash: json.at("data_hash").hex(),
    validatorsHash: json.at("validators_hash").hex(),
    nextValidatorsHash: json.at("next_validators_hash").hex(),
    consensusHash: json.at("consensus_hash").hex(),
    appHash: json.at("app_hash").hex(),
    lastResultsHash: json.at("last_results_hash").hex(),
    evidenceHash: json.at("evidence_hash").hex(),
    proposerAddress: json.at("proposer_address").hex(),
  };
}

function readCommit(json: RpcValue): Commit {
  return {
    height: json.at("height").integer(),
    round: json.at("round").number(),
    blockId: readBlockId(json.at("block_id")),
    signatures: json
      .at("signatures")
      .items()
      .map((sig) => ({
        flag: sig.at("block_id_flag").oneOf([1, 2, 3]),
        validatorAddress: sig.at("validator_address").hex(),
        timeNs: sig.at("timestamp").timeNs(),
        signature: sig.at("signature").base64(),
      })),
  };
}

function readVote(json: RpcValue): Vote {
  return {
    type: json.at("type").oneOf([1, 2]),
    height: json.at("height").integer(),
    round: json.at("round").number(),
    blockId: readBlockId(json.at("block_id")),
    timeNs: json.at("timestamp").timeNs(),
    validatorAddress: json.at("validator_address").hex(),
    validatorIndex: json.at("validator_index").number(),
    signature: json.at("signature").base64(),
    extension: json.at("extension").base64(),
    extensionSignature: json.at("extension_signature").base64(),
  };
}

// Evidence of other kinds has no votes; such a block cannot be read.
function readEvidence(json: RpcValue): DuplicateVoteEvidence {
  const value = json.at("value");
  return {
    voteA: readVote(value.at("vote_a")),
    voteB: readVote(value.at("vote_b")),
    totalVotingPower: value.at("TotalVotingPower").integer(),
    validatorPower: value.at("ValidatorPower").integer(),
    timeNs: value.at("Timestamp").timeNs(),
  };
}

/** Reads a block. */
export function readBlock(json: RpcValue): Block {
  return {
    header: readHeader(json.at("header")),
    txs: json
      .at("data")
      .at("txs")
      .items()
      .map((tx) => tx.base64()),
    evidence: json.at("evidence").at("evidence").items().map(readEvidence),
    lastCommit: readCommit(json.at("last_commit")),
  };
}

/** Reads events. */
export function readEvents(json: RpcValue): ChainEvent[] {
  return json.items().map((event) => ({
    type: event.at("type").text(),
    attributes: event
      .at("attributes")
      .items()
      .map((item) => ({
        key: item.at("key").text(),
        value: item.at("value").text(),
        index: item.at("index").boolean(),
      })),
  }));
}

/** Reads what became of a transaction. */
export function readTxResult(json: RpcValue): TxResult {
  return {
    code: json.at("code").number(),
    codespace: json.at("codespace").text(),
    log: json.at("log").text(),
    data: json.at("data").base64(),
    gasWanted: json.at("gas_wanted").integer(),
    gasUsed: json.at("gas_used").integer(),
    events: readEvents(json.at("events")),
  };
}

/** Reads changes of the validator set, with ed25519 keys. */
export function readUpdates(json: RpcValue): ValidatorUpdate[] {
  return json.items().map((update) => ({
    publicKey: update.at("pub_key").at("Sum").at("value").at("ed25519").base64(),
    power: update.at("power").integer(),
  }));
}

/** Reads a validator with an ed25519 key. */
export function readValidator(json: RpcValue): Validator {
  return {
    address: json.at("address").hex(),
    publicKey: json.at("pub_key").at("value").base64(),
    votingPower: json.at("voting_power").integer(),
    proposerPriority: json.at("proposer_priority").integer(),
  };
}
