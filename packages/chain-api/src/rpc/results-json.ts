import { bytesToBase64, bytesToHex } from "@turnpike/base";
import type { ChainEvent, GenesisConsensusParams, TxResult, ValidatorUpdate } from "@turnpike/chain";
import type { StoredBlock, StoredTx } from "@turnpike/chain-node";
import {
  type Block,
  blockIdToRpcJson,
  blockToRpcJson,
  dataHash,
  headerToRpcJson,
  type RpcJson,
  ZERO_BLOCK_ID,
} from "@turnpike/cometbft";
import { merkleProofs, sha256 } from "@turnpike/crypto";

type RpcObject = { readonly [name: string]: RpcJson };

/** Upper-case hex digits. */
export const upperHex = (bytes: Uint8Array): string => bytesToHex(bytes).toUpperCase();

/** Base64; null where there are no bytes. */
export const base64OrNull = (bytes: Uint8Array): string | null => (bytes.length === 0 ? null : bytesToBase64(bytes));

/** Events, with all members of their attributes. */
export function eventsJson(events: readonly ChainEvent[]): RpcJson {
  return events.map(eventJson);
}

/** An event, with all members of its attributes. */
export function eventJson({ type, attributes }: ChainEvent): RpcJson {
  return { type, attributes: attributes.map(({ key, value, index }) => ({ key, value, index })) };
}

/** What became of a transaction, with all members. A check that passed has the empty text for no data, all others null. */
export function txResultJson(txResult: TxResult): RpcJson {
  const { code, data, log, gasWanted, gasUsed, events, codespace } = txResult;
  return {
    code,
    data: code === 0 ? bytesToBase64(data) : base64OrNull(data),
    log,
    info: "",
    gas_wanted: gasWanted.toString(),
    gas_used: gasUsed.toString(),
    events: eventsJson(events),
    codespace,
  };
}

/** The result of a transaction that was not delivered. */
export const NO_TX_RESULT: RpcJson = {
  code: 0,
  data: null,
  log: "",
  info: "",
  gas_wanted: "0",
  gas_used: "0",
  events: [],
  codespace: "",
};

/** What became of a transaction, in the form of the event `Tx`: without empty members. */
export function txEventJson({ heightBlocks, index, bytes, result }: StoredTx): RpcJson {
  const { code, data, log, gasWanted, gasUsed, events, codespace } = result;
  return {
    height: heightBlocks.toString(),
    ...(index === 0 ? {} : { index }),
    tx: bytesToBase64(bytes),
    result: {
      ...(code === 0 ? {} : { code }),
      ...(data.length === 0 ? {} : { data: bytesToBase64(data) }),
      ...(log === "" ? {} : { log }),
      ...(gasWanted === 0n ? {} : { gas_wanted: gasWanted.toString() }),
      ...(gasUsed === 0n ? {} : { gas_used: gasUsed.toString() }),
      ...(events.length === 0 ? {} : { events: eventsJson(events) }),
      ...(codespace === "" ? {} : { codespace }),
    },
  };
}

/** A committed transaction; with its block, a proof that the block holds it. */
export function storedTxJson(tx: StoredTx, block: Block | undefined): RpcJson {
  return {
    hash: upperHex(tx.hash),
    height: tx.heightBlocks.toString(),
    index: tx.index,
    tx_result: txResultJson(tx.result),
    tx: bytesToBase64(tx.bytes),
    ...(block === undefined ? {} : { proof: txProofJson(block.txs, tx.index) }),
  };
}

function txProofJson(txs: readonly Uint8Array[], index: number): RpcJson {
  const proof = merkleProofs(txs.map((tx) => sha256(tx))).proofs[index];
  return {
    root_hash: upperHex(dataHash(txs)),
    data: base64OrNull(txs[index] ?? new Uint8Array(0)),
    proof: {
      total: (proof?.total ?? 0).toString(),
      index: (proof?.index ?? 0).toString(),
      leaf_hash: base64OrNull(proof?.leafHash ?? new Uint8Array(0)),
      aunts: (proof?.aunts ?? []).map(bytesToBase64),
    },
  };
}

/** A block with its id; of none: an empty id and null. */
export function storedBlockJson(stored: StoredBlock | undefined): RpcObject {
  if (stored === undefined) return { block_id: blockIdToRpcJson(ZERO_BLOCK_ID), block: null };
  return { block_id: blockIdToRpcJson(stored.id), block: blockToRpcJson(stored.block) };
}

/** A block's head in a list of blocks. */
export function blockMetaJson({ block, id, sizeBytes }: StoredBlock): RpcJson {
  return {
    block_id: blockIdToRpcJson(id),
    block_size: sizeBytes.toString(),
    header: headerToRpcJson(block.header),
    num_txs: block.txs.length.toString(),
  };
}

/** Changes of the validator set, as blocks have them. */
export function validatorUpdatesJson(updates: readonly ValidatorUpdate[]): RpcJson {
  return updates.map(({ publicKey, power }) => ({
    pub_key: { Sum: { type: "tendermint.crypto.PublicKey_Ed25519", value: { ed25519: bytesToBase64(publicKey) } } },
    ...(power === 0n ? {} : { power: power.toString() }),
  }));
}

/** Consensus parameters, with all members. */
export function consensusParamsJson(params: GenesisConsensusParams): RpcObject {
  const { block, evidence, validator, version, abci } = params;
  return {
    block: { max_bytes: block.max_bytes, max_gas: block.max_gas },
    evidence: {
      max_age_num_blocks: evidence.max_age_num_blocks,
      max_age_duration: evidence.max_age_duration,
      max_bytes: evidence.max_bytes,
    },
    validator: { pub_key_types: [...validator.pub_key_types] },
    version: { app: version.app },
    abci: { vote_extensions_enable_height: abci.vote_extensions_enable_height },
  };
}

/** Consensus parameters, as every block gives them: zeros are left out. */
export function consensusParamUpdatesJson(params: GenesisConsensusParams): RpcObject {
  const { version, abci } = params;
  const enableHeight = abci.vote_extensions_enable_height;
  return {
    ...consensusParamsJson(params),
    version: version.app === "0" ? {} : { app: version.app },
    abci: enableHeight === "0" ? {} : { vote_extensions_enable_height: enableHeight },
  };
}
