import { bytesToBase64 } from "@turnpike/base";
import { validatorKeyAddress } from "@turnpike/crypto";
import { type RpcJson, validatorToRpcJson } from "../comet/rpc-json.ts";
import { nsToRfc3339 } from "../comet/time.ts";
import { COMET_VERSION } from "../comet/types.ts";
import { validatorAt } from "../comet/validator-set.ts";
import type { AbciQuerier, EmbeddedNode, StoredBlock } from "../node/types.ts";
import { failed, type RpcOutcome, result, resultText } from "./answers.ts";
import type { ArgumentValue } from "./arguments.ts";
import { goJsonText } from "./go-json.ts";
import { chooseHeight, pageFault, pageSize, skipOf } from "./heights.ts";
import { args, bytesOf, integerOf, type RpcMethods, textOf } from "./method.ts";
import { base64OrNull, consensusParamsJson, upperHex } from "./results-json.ts";
import { roundStateJson, roundStateSimpleJson } from "./round-state-json.ts";

/** Name under which the application shows itself in `abci_info`. */
const APP_NAME = "pocket";
const P2P_PROTOCOL = "8";
const BLOCK_PROTOCOL = "11";
/** Channels of a full node. */
const CHANNELS = "402021222330386061";

/** Options of {@link nodeMethods}. */
export interface NodeMethodOptions {
  readonly genesisChunkBytes: number;
  /** Address of the peer-to-peer port as it is shown; nothing listens there. */
  readonly p2pAddress: string;
  /** Address of this server as it is shown, such as `tcp://127.0.0.1:26657`. */
  readonly rpcAddress: () => string;
}

function genesisJsonText({ genesis }: EmbeddedNode): string {
  return goJsonText({
    genesis_time: genesis.genesis_time,
    chain_id: genesis.chain_id,
    initial_height: String(genesis.initial_height),
    consensus_params: consensusParamsJson(genesis.consensus.params),
    app_hash: genesis.app_hash ?? "",
    app_state: genesis.app_state,
  });
}

const EMPTY = new Uint8Array(0);
const stampOf = (stored: StoredBlock | undefined): [hash: string, appHash: string, height: string, time: string] => [
  upperHex(stored?.id.hash ?? EMPTY),
  upperHex(stored?.block.header.appHash ?? EMPTY),
  (stored?.block.header.height ?? 0n).toString(),
  nsToRfc3339(stored?.block.header.timeNs ?? 0n),
];

/** Methods that show the node, its application, its genesis and the consensus. */
export function nodeMethods(
  opts: NodeMethodOptions,
  { node, queries }: { readonly node: EmbeddedNode; readonly queries: AbciQuerier },
): RpcMethods {
  const { blocks, application, genesis } = node;
  let genesisText: string | undefined;
  let genesisBytes: Buffer | undefined;
  const text = (): string => (genesisText ??= genesisJsonText(node));
  const bytes = (): Buffer => (genesisBytes ??= Buffer.from(text(), "utf8"));
  const chunks = (): number => Math.ceil(bytes().length / opts.genesisChunkBytes);
  // What the next block will be decided by is known.
  const atHeight = (asked: ArgumentValue, answer: (heightBlocks: bigint) => RpcOutcome): RpcOutcome => {
    const choice = chooseHeight(blocks, blocks.latestHeightBlocks() + 1n, integerOf(asked));
    return choice.ok ? answer(choice.heightBlocks) : failed(choice.fault);
  };

  // It says nothing but what the newest block made true, and is asked for more than all others.
  let cachedStatus: { readonly latest: bigint; readonly text: string } | undefined;
  const status = (): RpcOutcome => {
    const latest = blocks.latestHeightBlocks();
    if (cachedStatus?.latest !== latest) cachedStatus = { latest, text: goJsonText(statusJson(latest)) };
    return resultText(cachedStatus.text);
  };

  const statusJson = (latest: bigint): RpcJson => {
    const address = validatorKeyAddress(node.validatorKey);
    const set = blocks.validators(latest + 1n);
    const [hash, appHash, height, time] = stampOf(latest === 0n ? undefined : blocks.block(latest));
    const first = stampOf(latest === 0n ? undefined : blocks.block(blocks.baseHeightBlocks()));
    return {
      node_info: {
        protocol_version: { p2p: P2P_PROTOCOL, block: BLOCK_PROTOCOL, app: genesis.consensus.params.version.app },
        id: node.nodeId,
        listen_addr: opts.p2pAddress,
        network: genesis.chain_id,
        version: COMET_VERSION,
        channels: CHANNELS,
        moniker: node.moniker,
        other: { tx_index: "on", rpc_address: opts.rpcAddress() },
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
  };

  const abciQuery = async ([path, data, height]: readonly ArgumentValue[]): Promise<RpcOutcome> => {
    const key = bytesOf(data);
    const answer = await queries.abciQuery(textOf(path), key, integerOf(height) ?? 0n);
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
  };

  const validators = ([height, page, perPage]: readonly ArgumentValue[]): RpcOutcome =>
    atHeight(height, (at) => {
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

  const genesisChunk = (chunk: bigint): RpcOutcome => {
    const total = chunks();
    if (chunk >= BigInt(total)) return failed(`there are ${total - 1} chunks, ${chunk} is invalid`);
    const from = Number(chunk) * opts.genesisChunkBytes;
    const data = bytes().subarray(from, from + opts.genesisChunkBytes);
    return result({ chunk: chunk.toString(), total: total.toString(), data: bytesToBase64(data) });
  };

  return {
    health: { args: [], call: () => result({}) },
    status: { args: [], call: status },
    net_info: {
      args: [],
      call: () => result({ listening: true, listeners: ["Listener(@)"], n_peers: "0", peers: [] }),
    },
    genesis: {
      args: [],
      cacheable: true,
      call: () =>
        chunks() > 1
          ? failed("genesis response is large, please use the genesis_chunked API instead")
          : resultText(`{"genesis":${text()}}`),
    },
    genesis_chunked: {
      args: args("chunk:uint"),
      cacheable: true,
      call: ([chunk]) => genesisChunk(integerOf(chunk) ?? 0n),
    },
    abci_info: {
      args: [],
      cacheable: true,
      call: () => {
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
      },
    },
    abci_query: { args: args("path:string data:hexBytes height:int64 prove:bool"), call: abciQuery },
    validators: { args: args("height:int64 page:int per_page:int"), cacheable: "height", call: validators },
    consensus_params: {
      args: args("height:int64"),
      cacheable: "height",
      call: ([height]) =>
        atHeight(height, (at) =>
          result({
            block_height: at.toString(),
            consensus_params: consensusParamsJson(genesis.consensus.params),
          }),
        ),
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
