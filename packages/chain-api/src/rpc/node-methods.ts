import { bytesToBase64 } from "@turnpike/base";
import type { AbciQuerier, GenesisDocument } from "@turnpike/chain";
import type { BlockReads, EmbeddedNode, StoredBlock } from "@turnpike/chain-node";
import {
  BLOCK_PROTOCOL,
  COMET_VERSION,
  nsToRfc3339,
  type RpcJson,
  validatorAt,
  validatorToRpcJson,
} from "@turnpike/cometbft";
import { validatorKeyAddress } from "@turnpike/crypto";
import { failed, type RpcOutcome, result, resultText } from "./answers.ts";
import type { ArgumentValue } from "./arguments.ts";
import { goJsonText } from "./go-json.ts";
import { chooseHeight, pageFault, pageSize, skipOf } from "./heights.ts";
import { args, bytesOf, integerOf, type RpcCaller, type RpcMethods, textOf } from "./method.ts";
import { base64OrNull, consensusParamsJson, upperHex } from "./results-json.ts";
import { roundStateJson, roundStateSimpleJson } from "./round-state-json.ts";

/** Name under which the application shows itself in `abci_info`. */
const APP_NAME = "pocket";
const P2P_PROTOCOL = "8";
/** Channels of a full node. */
const CHANNELS = "402021222330386061";

/** Configured values that `genesis_chunked` and `status` show. */
export interface NodeMethodOptions {
  readonly genesisChunkBytes: number;
  /** Address of the peer-to-peer port as it is shown; nothing listens there. */
  readonly p2pAddress: string;
  /** Address of this server as it is shown, such as `tcp://127.0.0.1:26657`. */
  readonly rpcAddress: () => string;
}

const EMPTY = new Uint8Array(0);
const stampOf = (stored: StoredBlock | undefined): [hash: string, appHash: string, height: string, time: string] => [
  upperHex(stored?.id.hash ?? EMPTY),
  upperHex(stored?.block.header.appHash ?? EMPTY),
  (stored?.block.header.height ?? 0n).toString(),
  nsToRfc3339(stored?.block.header.timeNs ?? 0n),
];

/** Text of `genesis.json`, made once and served whole or in chunks. */
class GenesisMethods {
  readonly #chunkBytes: number;
  readonly #genesis: GenesisDocument;
  #made: { readonly text: string; readonly bytes: Buffer } | undefined;

  constructor(chunkBytes: number, genesis: GenesisDocument) {
    this.#chunkBytes = chunkBytes;
    this.#genesis = genesis;
  }

  whole(): RpcOutcome {
    if (this.#chunks() > 1) return failed("genesis response is large, please use the genesis_chunked API instead");
    return resultText(`{"genesis":${this.#document().text}}`);
  }

  chunk(index: bigint): RpcOutcome {
    const total = this.#chunks();
    if (index >= BigInt(total)) return failed(`there are ${total - 1} chunks, ${index} is invalid`);
    const from = Number(index) * this.#chunkBytes;
    const data = this.#document().bytes.subarray(from, from + this.#chunkBytes);
    return result({ chunk: index.toString(), total: total.toString(), data: bytesToBase64(data) });
  }

  #chunks(): number {
    return Math.ceil(this.#document().bytes.length / this.#chunkBytes);
  }

  #document(): { readonly text: string; readonly bytes: Buffer } {
    if (this.#made !== undefined) return this.#made;
    const { genesis_time, chain_id, initial_height, consensus, app_hash, app_state } = this.#genesis;
    const text = goJsonText({
      genesis_time,
      chain_id,
      initial_height: String(initial_height),
      consensus_params: consensusParamsJson(consensus.params),
      app_hash: app_hash ?? "",
      app_state,
    });
    this.#made = { text, bytes: Buffer.from(text, "utf8") };
    return this.#made;
  }
}

function statusJson({ p2pAddress, rpcAddress }: NodeMethodOptions, node: EmbeddedNode, latest: bigint): RpcJson {
  const { blocks, genesis } = node;
  const address = validatorKeyAddress(node.validatorKey);
  const set = blocks.validators(latest + 1n);
  const [hash, appHash, height, time] = stampOf(latest === 0n ? undefined : blocks.block(latest));
  const first = stampOf(latest === 0n ? undefined : blocks.block(blocks.baseHeightBlocks()));
  return {
    node_info: {
      protocol_version: {
        p2p: P2P_PROTOCOL,
        block: BLOCK_PROTOCOL.toString(),
        app: genesis.consensus.params.version.app,
      },
      id: node.nodeId,
      listen_addr: p2pAddress,
      network: genesis.chain_id,
      version: COMET_VERSION,
      channels: CHANNELS,
      moniker: node.moniker,
      other: { tx_index: "on", rpc_address: rpcAddress() },
    },
    sync_info: {
      latest_block_hash: hash,
      latest_app_hash: appHash,
      latest_block_height: height,
      latest_block_time: time,
      earliest_block_hash: first[0],
      earliest_app_hash: first[1],
      earliest_block_height: first[2],
      earliest_block_time: first[3],
      catching_up: false,
    },
    validator_info: {
      address: upperHex(address),
      pub_key: { type: "tendermint/PubKeyEd25519", value: bytesToBase64(node.validatorKey) },
      voting_power: (set === undefined ? 0n : (validatorAt(set, address)?.votingPower ?? 0n)).toString(),
    },
  };
}

// Its answer changes with the newest block alone, and it is called more than all others.
function statusMethod(opts: NodeMethodOptions, node: EmbeddedNode): () => RpcOutcome {
  let cached: { readonly latest: bigint; readonly text: string } | undefined;
  return () => {
    const latest = node.blocks.latestHeightBlocks();
    if (cached?.latest !== latest) cached = { latest, text: goJsonText(statusJson(opts, node, latest)) };
    return resultText(cached.text);
  };
}

function abciInfo({ application }: EmbeddedNode): RpcOutcome {
  const height = application.latestHeightBlocks();
  const hash = application.latestAppHash();
  return result({
    response: {
      data: APP_NAME,
      version: application.version,
      ...(height === 0n ? {} : { last_block_height: height.toString() }),
      ...(hash.length === 0 ? {} : { last_block_app_hash: bytesToBase64(hash) }),
    },
  });
}

async function abciQuery(
  queries: AbciQuerier,
  [path, data, height]: readonly ArgumentValue[],
  { clientKey }: RpcCaller,
): Promise<RpcOutcome> {
  const key = bytesOf(data);
  const answer = await queries.abciQuery(textOf(path), key, integerOf(height) ?? 0n, clientKey);
  const readsKey = answer.code === 0 && textOf(path).startsWith("/store/");
  return result({
    response: {
      code: answer.code,
      log: answer.log,
      info: "",
      index: "0",
      key: readsKey ? base64OrNull(key) : null,
      value: base64OrNull(answer.value),
      proofOps: null,
      height: answer.heightBlocks.toString(),
      codespace: answer.codespace,
    },
  });
}

// The height after the newest block may be asked for, too: its validators and parameters are known.
function atHeight(blocks: BlockReads, asked: ArgumentValue, answer: (heightBlocks: bigint) => RpcOutcome): RpcOutcome {
  const choice = chooseHeight(blocks, blocks.latestHeightBlocks() + 1n, integerOf(asked));
  return choice.ok ? answer(choice.heightBlocks) : failed(choice.fault);
}

function validatorsPage(blocks: BlockReads, [height, page, perPage]: readonly ArgumentValue[]): RpcOutcome {
  return atHeight(blocks, height, (at) => {
    const all = blocks.validators(at)?.validators;
    if (all === undefined) return failed(`could not find validator set for height #${at}`);
    const size = pageSize(integerOf(perPage));
    const fault = pageFault(integerOf(page), size, all.length);
    if (fault !== undefined) return failed(fault);
    const skip = skipOf(integerOf(page), size);
    const shown = all.slice(skip, skip + size);
    return result({
      block_height: at.toString(),
      validators: shown.map(validatorToRpcJson),
      count: shown.length.toString(),
      total: all.length.toString(),
    });
  });
}

/** Methods that show the node, its application, its genesis and the consensus. */
export function nodeMethods(
  opts: NodeMethodOptions,
  { node, queries }: { readonly node: EmbeddedNode; readonly queries: AbciQuerier },
): RpcMethods {
  const { blocks, genesis } = node;
  const genesisText = new GenesisMethods(opts.genesisChunkBytes, genesis);
  const paramsAt = (at: bigint): RpcOutcome =>
    result({ block_height: at.toString(), consensus_params: consensusParamsJson(genesis.consensus.params) });
  return {
    health: { args: [], call: () => result({}) },
    status: { args: [], call: statusMethod(opts, node) },
    net_info: {
      args: [],
      call: () => result({ listening: true, listeners: ["Listener(@)"], n_peers: "0", peers: [] }),
    },
    genesis: { args: [], cacheable: true, call: () => genesisText.whole() },
    genesis_chunked: {
      args: args("chunk:uint"),
      cacheable: true,
      call: ([chunk]) => genesisText.chunk(integerOf(chunk) ?? 0n),
    },
    abci_info: { args: [], cacheable: true, call: () => abciInfo(node) },
    abci_query: {
      args: args("path:string data:hexBytes height:int64 prove:bool"),
      call: (given, caller) => abciQuery(queries, given, caller),
    },
    validators: {
      args: args("height:int64 page:int per_page:int"),
      cacheable: "height",
      call: (given) => validatorsPage(blocks, given),
    },
    consensus_params: {
      args: args("height:int64"),
      cacheable: "height",
      call: ([height]) => atHeight(blocks, height, paramsAt),
    },
    consensus_state: { args: [], call: () => result({ round_state: roundStateSimpleJson(node.moment()) }) },
    dump_consensus_state: {
      args: [],
      call: () => result({ round_state: roundStateJson(node.moment()), peers: [] }),
    },
    // One validator cannot be proven to have voted twice by anyone but itself: none is taken.
    broadcast_evidence: { args: args("evidence:evidence"), call: () => failed("no evidence was provided") },
  };
}
