import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { base64ToBytes, bytesToHex, hexToBytes } from "@turnpike/base";
import { must } from "@turnpike/testkit/fixtures";
import { rfc3339ToNs } from "../src/time.ts";
import type { Block, BlockId, Commit, CommitSig, Header, Validator, ValidatorSet } from "../src/types.ts";

/** A block id as recorded. */
export interface IdJson {
  readonly hash: string;
  readonly parts: { readonly total: number; readonly hash: string };
}

/** A header as recorded. */
export type HeaderJson = Readonly<Record<Exclude<keyof HeaderNames, "version" | "last_block_id">, string>> & {
  readonly version: { readonly block: string; readonly app?: string };
  readonly last_block_id: IdJson;
};

interface HeaderNames {
  version: 1;
  chain_id: 1;
  height: 1;
  time: 1;
  last_block_id: 1;
  last_commit_hash: 1;
  data_hash: 1;
  validators_hash: 1;
  next_validators_hash: 1;
  consensus_hash: 1;
  app_hash: 1;
  last_results_hash: 1;
  evidence_hash: 1;
  proposer_address: 1;
}

/** A commit as recorded. */
export interface CommitJson {
  readonly height: string;
  readonly round: number;
  readonly block_id: IdJson;
  readonly signatures: readonly {
    readonly block_id_flag: CommitSig["flag"];
    readonly validator_address: string;
    readonly timestamp: string;
    readonly signature: string;
  }[];
}

/** A block as recorded. */
export interface BlockJson {
  readonly header: HeaderJson;
  readonly data: { readonly txs: readonly string[] };
  readonly last_commit: CommitJson;
}

/** A validator as recorded. */
export interface ValidatorJson {
  readonly address: string;
  readonly pub_key: { readonly value: string };
  readonly voting_power: string;
  readonly proposer_priority: string;
}

interface Recorded {
  readonly chain_id: string;
  readonly blocks: readonly { readonly block_id: IdJson; readonly block: BlockJson }[];
  readonly block_metas: readonly {
    readonly block_id: IdJson;
    readonly block_size: string;
    readonly header: HeaderJson;
    readonly num_txs: string;
  }[];
  readonly signed_headers: readonly { readonly header: HeaderJson; readonly commit: CommitJson }[];
  readonly headers: readonly HeaderJson[];
  readonly validators: readonly { readonly block_height: string; readonly validators: readonly ValidatorJson[] }[];
  readonly block_params: { readonly max_bytes: string; readonly max_gas: string };
  readonly results: {
    readonly block_height: string;
    readonly txs: readonly {
      readonly tx: string;
      readonly code: number;
      readonly data: string;
      readonly gas_wanted: string;
      readonly gas_used: string;
    }[];
  };
}

/** Reads one of the vector files. */
export function readCometVectors<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../../test/spec/chain/comet/${name}`, import.meta.url), "utf8")) as T;
}

/** What a node of the real chain answered. */
export const recorded: Recorded = readCometVectors<Recorded>("recorded.json");

const hex = (text: string): Uint8Array => must(hexToBytes(text));
const base64 = (text: string): Uint8Array => must(base64ToBytes(text));

/** Reads a recorded id. */
export function readId({ hash, parts }: IdJson): BlockId {
  return { hash: hex(hash), parts: { total: parts.total, hash: hex(parts.hash) } };
}

/** Reads a recorded header. */
export function readHeader(json: HeaderJson): Header {
  return {
    version: { block: BigInt(json.version.block), app: BigInt(json.version.app ?? 0) },
    chainId: json.chain_id,
    height: BigInt(json.height),
    timeNs: must(rfc3339ToNs(json.time)),
    lastBlockId: readId(json.last_block_id),
    lastCommitHash: hex(json.last_commit_hash),
    dataHash: hex(json.data_hash),
    validatorsHash: hex(json.validators_hash),
    nextValidatorsHash: hex(json.next_validators_hash),
    consensusHash: hex(json.consensus_hash),
    appHash: hex(json.app_hash),
    lastResultsHash: hex(json.last_results_hash),
    evidenceHash: hex(json.evidence_hash),
    proposerAddress: hex(json.proposer_address),
  };
}

/** Reads a recorded commit. */
export function readCommit(json: CommitJson): Commit {
  return {
    height: BigInt(json.height),
    round: json.round,
    blockId: readId(json.block_id),
    signatures: json.signatures.map((sig) => ({
      flag: sig.block_id_flag,
      validatorAddress: hex(sig.validator_address),
      timeNs: must(rfc3339ToNs(sig.timestamp)),
      signature: base64(sig.signature),
    })),
  };
}

/** Reads a recorded block. */
export function readBlock(json: BlockJson): Block {
  const lastCommit = readCommit(json.last_commit);
  return { header: readHeader(json.header), txs: json.data.txs.map(base64), evidence: [], lastCommit };
}

/** The recorded validators; the set was the same from the first block to 103 and from 2030 on. */
export function recordedSet(height: bigint): ValidatorSet {
  const list = must(recorded.validators.find(({ block_height: at }) => BigInt(at) > 103n === height > 103n)).validators;
  const validators = list.map(
    (json): Validator => ({
      address: hex(json.address),
      publicKey: base64(json.pub_key.value),
      votingPower: BigInt(json.voting_power),
      proposerPriority: BigInt(json.proposer_priority),
    }),
  );
  return { validators, proposer: must(validators[0]) };
}

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return bytesToHex(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

/** Deep equality by the bytes, whatever kind of array holds them. */
export function assertSame(actual: unknown, expected: unknown): void {
  assert.deepEqual(plain(actual), plain(expected));
}
