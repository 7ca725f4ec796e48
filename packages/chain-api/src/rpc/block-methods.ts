import { type EmbeddedNode, parseEventQuery, type StoredBlock } from "@turnpike/chain-node";
import { commitToRpcJson, headerToRpcJson } from "@turnpike/cometbft";
import { failed, type RpcOutcome, result } from "./answers.ts";
import type { ArgumentValue } from "./arguments.ts";
import { chooseHeight, pageFault, pageSize, skipOf } from "./heights.ts";
import { args, bytesOf, integerOf, type RpcMethods, textOf } from "./method.ts";
import {
  base64OrNull,
  blockMetaJson,
  consensusParamUpdatesJson,
  eventsJson,
  storedBlockJson,
  txResultJson,
  validatorUpdatesJson,
} from "./results-json.ts";

const MOST_METAS = 20n;

/** Order of a search's matches; undefined: the text is none. */
export function orderOf(text: string, byDefault: "asc" | "desc"): "asc" | "desc" | undefined {
  if (text === "") return byDefault;
  return text === "asc" || text === "desc" ? text : undefined;
}

/** What `order_by` must be, in CometBFT's words. */
export const ORDER_FAULT = "expected order_by to be either `asc` or `desc` or empty";

/** Methods that show blocks. */
export function blockMethods({ blocks, genesis }: EmbeddedNode): RpcMethods {
  const latest = (): bigint => blocks.latestHeightBlocks();
  const atHeight = (asked: ArgumentValue, answer: (heightBlocks: bigint) => RpcOutcome): RpcOutcome => {
    const choice = chooseHeight(blocks, latest(), integerOf(asked));
    return choice.ok ? answer(choice.heightBlocks) : failed(choice.fault);
  };
  const headerOf = (stored: StoredBlock | undefined): RpcOutcome =>
    result({ header: stored === undefined ? null : headerToRpcJson(stored.block.header) });

  const blockchain = (min: bigint, max: bigint): RpcOutcome => {
    if (min < 0n || max < 0n) return failed("heights must be non-negative");
    const newest = latest();
    const to = max === 0n || max > newest ? newest : max;
    let from = min === 0n ? 1n : min;
    for (const bound of [blocks.baseHeightBlocks(), to - MOST_METAS + 1n]) if (from < bound) from = bound;
    if (from > to) return failed(`min height ${from} can't be greater than max height ${to}`);
    const metas = [];
    for (let height = to; height >= from; height--) {
      const stored = blocks.block(height);
      metas.push(stored === undefined ? null : blockMetaJson(stored));
    }
    return result({ last_height: newest.toString(), block_metas: metas });
  };

  const blockSearch = async ([query, page, perPage, orderBy]: readonly ArgumentValue[]): Promise<RpcOutcome> => {
    const parsed = parseEventQuery(textOf(query));
    if (!parsed.ok) return failed(parsed.fault);
    const order = orderOf(textOf(orderBy), "desc");
    if (order === undefined) return failed(ORDER_FAULT);
    const take = pageSize(integerOf(perPage));
    const skip = skipOf(integerOf(page), take);
    const { items, total } = await blocks.searchBlocks(textOf(query), { order, skip, take });
    const fault = pageFault(integerOf(page), take, total);
    if (fault !== undefined) return failed(fault);
    return result({ blocks: items.map(storedBlockJson), total_count: total.toString() });
  };

  return {
    blockchain: {
      args: args("minHeight:int64 maxHeight:int64"),
      cacheable: true,
      call: ([min, max]) => blockchain(integerOf(min) ?? 0n, integerOf(max) ?? 0n),
    },
    block: {
      args: args("height:int64"),
      cacheable: "height",
      call: ([height]) => atHeight(height, (at) => result(storedBlockJson(blocks.block(at)))),
    },
    block_by_hash: {
      args: args("hash:bytes"),
      cacheable: true,
      call: ([hash]) => result(storedBlockJson(blocks.blockByHash(bytesOf(hash)))),
    },
    header: {
      args: args("height:int64"),
      cacheable: "height",
      call: ([height]) => atHeight(height, (at) => headerOf(blocks.block(at))),
    },
    header_by_hash: {
      args: args("hash:hexBytes"),
      cacheable: true,
      call: ([hash]) => headerOf(blocks.blockByHash(bytesOf(hash))),
    },
    commit: {
      args: args("height:int64"),
      cacheable: "height",
      call: ([height]) =>
        atHeight(height, (at) => {
          const stored = blocks.block(at);
          const found = blocks.commit(at);
          if (stored === undefined || found === undefined) return result(null);
          const header = headerToRpcJson(stored.block.header);
          const signedHeader = { header, commit: commitToRpcJson(found.commit) };
          return result({ signed_header: signedHeader, canonical: found.canonical });
        }),
    },
    block_results: {
      args: args("height:int64"),
      cacheable: "height",
      call: ([height]) =>
        atHeight(height, (at) => {
          const results = blocks.results(at);
          if (results === undefined) return failed(`could not find results for height #${at}`);
          const { txResults, events, validatorUpdates, appHash } = results;
          return result({
            height: at.toString(),
            txs_results: txResults.length === 0 ? null : txResults.map(txResultJson),
            // CometBFT has null here where a block has no events; clients cannot read that.
            finalize_block_events: eventsJson(events),
            validator_updates: validatorUpdates.length === 0 ? null : validatorUpdatesJson(validatorUpdates),
            consensus_param_updates: consensusParamUpdatesJson(genesis.consensus.params),
            app_hash: base64OrNull(appHash),
          });
        }),
    },
    block_search: { args: args("query:string page:int per_page:int order_by:string"), call: blockSearch },
  };
}
