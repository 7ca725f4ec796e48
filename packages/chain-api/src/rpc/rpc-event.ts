import { bytesToBase64 } from "@turnpike/base";
import type { GenesisConsensusParams } from "@turnpike/chain";
import { EVENT_KEY, type EventMap, eventMapOfBlock, eventMapOfTx, type NodeEvent } from "@turnpike/chain-node";
import { blockIdToRpcJson, blockToRpcJson, headerToRpcJson, type RpcJson } from "@turnpike/cometbft";
import { validatorKeyAddress } from "@turnpike/crypto";
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

/** An event of the node as subscribers get it; its JSON is made once, and only when somebody wants it. */
export class RpcEvent {
  /** What queries are matched with. */
  readonly values: EventMap;
  readonly #event: NodeEvent;
  readonly #params: GenesisConsensusParams;
  #text: string | undefined;

  constructor(event: NodeEvent, params: GenesisConsensusParams) {
    this.#event = event;
    this.#params = params;
    this.values = valuesOf(event);
  }

  /** The result of an answer to a subscription, as JSON text. */
  resultJson(query: string): string {
    this.#text ??= this.#dataJson();
    return `{"query":${goJsonText(query)},${this.#text}}`;
  }

  #dataJson(): string {
    const data = { type: `tendermint/event/${this.#event.type}`, value: dataOf(this.#event, this.#params) };
    return `"data":${goJsonText(data)},"events":${goJsonText(Object.fromEntries(this.values))}`;
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
