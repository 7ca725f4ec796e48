import {
  type AnswerReader,
  asBuffer,
  bytesToBase64,
  type ReleaseBytes,
  type SharedBytes,
  utf8ToBytes,
  type WriteBufferBudget,
} from "@turnpike/base";
import type { GenesisConsensusParams } from "@turnpike/chain";
import { EVENT_KEY, type EventMap, eventMapOfBlock, eventMapOfTx, type NodeEvent } from "@turnpike/chain-node";
import { blockIdToRpcJson, blockToRpcJson, headerToRpcJson, type RpcJson } from "@turnpike/cometbft";
import { validatorKeyAddress } from "@turnpike/crypto";
import { LARGE_ANSWER_BYTES } from "../write-buffer.ts";
import { goJsonText } from "./go-json.ts";
import {
  base64OrNull,
  consensusParamUpdatesJson,
  eventsJson,
  txEventJson,
  txResultJson,
  upperHex,
  validatorUpdatesJson,
} from "./results-json.ts";

interface EventJson {
  /** Bytes when it is large: all connections are written the same ones. */
  readonly data: string | Buffer;
  readonly shared: SharedBytes;
}

/** An event of the node as subscribers get it; its JSON is created once, for the first of them. */
export class RpcEvent {
  /** Values that queries are matched with. */
  readonly values: EventMap;
  readonly #event: NodeEvent;
  readonly #params: GenesisConsensusParams;
  readonly #burst: object;
  readonly #writeBuffer: WriteBufferBudget;
  #json: EventJson | undefined;

  /** @param burst of all events of the block */
  constructor(
    event: NodeEvent,
    burst: object,
    modules: { readonly params: GenesisConsensusParams; readonly writeBuffer: WriteBufferBudget },
  ) {
    this.#event = event;
    this.#burst = burst;
    this.#params = modules.params;
    this.#writeBuffer = modules.writeBuffer;
    this.values = valuesOf(event);
  }

  /** Members of the result of an answer to a subscription but for its query, as JSON text. */
  get data(): string | Buffer {
    return this.#made().data;
  }

  /** Length of what was created of it. */
  get createdLength(): number {
    return this.#json?.data.length ?? 0;
  }

  /** Reserves room for a connection that does not read it at once; see {@link WriteBufferBudget.share}. */
  reserve(reader: AnswerReader): ReleaseBytes | undefined {
    return this.#made().shared.reserve(reader);
  }

  #made(): EventJson {
    this.#json ??= this.#create();
    return this.#json;
  }

  #create(): EventJson {
    const value = { type: `tendermint/event/${this.#event.type}`, value: dataOf(this.#event, this.#params) };
    const text = `"data":${goJsonText(value)},"events":${goJsonText(Object.fromEntries(this.values))}`;
    const data = text.length < LARGE_ANSWER_BYTES ? text : asBuffer(utf8ToBytes(text));
    return { data, shared: this.#writeBuffer.share(Buffer.byteLength(data), this.#burst) };
  }
}

function valuesOf(event: NodeEvent): EventMap {
  switch (event.type) {
    case "NewBlock":
    case "NewBlockEvents":
      return eventMapOfBlock(event.block, event.results, event.type);
    case "Tx":
      return eventMapOfTx(event.tx);
    default:
      return new Map([[EVENT_KEY, [event.type]]]);
  }
}

function dataOf(event: NodeEvent, params: GenesisConsensusParams): RpcJson {
  switch (event.type) {
    case "NewBlock": {
      const { events, txResults, validatorUpdates, appHash } = event.results;
      return {
        block: blockToRpcJson(event.block.block),
        block_id: blockIdToRpcJson(event.block.id),
        result_finalize_block: {
          ...(events.length === 0 ? {} : { events: eventsJson(events) }),
          ...(txResults.length === 0 ? {} : { tx_results: txResults.map(txResultJson) }),
          validator_updates: validatorUpdatesJson(validatorUpdates),
          consensus_param_updates: consensusParamUpdatesJson(params),
          app_hash: base64OrNull(appHash),
        },
      };
    }
    case "NewBlockHeader":
      return { header: headerToRpcJson(event.block.block.header) };
    case "NewBlockEvents":
      return {
        height: event.results.heightBlocks.toString(),
        events: eventsJson(event.results.events),
        num_txs: event.block.block.txs.length.toString(),
      };
    case "Tx":
      return { TxResult: txEventJson(event.tx) };
    case "ValidatorSetUpdates":
      return {
        validator_updates: event.updates.map(({ publicKey, power }) => ({
          address: upperHex(validatorKeyAddress(publicKey)),
          pub_key: { type: "tendermint/PubKeyEd25519", value: bytesToBase64(publicKey) },
          voting_power: power.toString(),
          proposer_priority: "0",
        })),
      };
  }
}
