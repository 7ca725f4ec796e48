import {
  type EmbeddedNode,
  type EventLoopQueue,
  makeInSteps,
  parseEventQuery,
  type StoredBlock,
} from "@turnpike/chain-node";
import { commitToRpcJson, headerToRpcJson } from "@turnpike/cometbft";
import { BUSY, failed, type RpcOutcome, result, resultText } from "./answers.ts";
import type { ArgumentValue } from "./arguments.ts";
import { goJsonText } from "./go-json.ts";
import { chooseHeight, pageFault, pageSize, skipOf } from "./heights.ts";
import { listText, stepsOf } from "./list-text.ts";
import { args, bytesOf, integerOf, type RpcCaller, type RpcMethods, textOf } from "./method.ts";
import {
  base64OrNull,
  blockMetaJson,
  consensusParamUpdatesJson,
  eventJson,
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
export function blockMethods({ blocks, genesis }: EmbeddedNode, queue: EventLoopQueue): RpcMethods {
  const latest = (): bigint => blocks.latestHeightBlocks();
  const atHeight = <T extends RpcOutcome | Promise<RpcOutcome>>(
    asked: ArgumentValue,
    answer: (heightBlocks: bigint) => T,
  ): T | RpcOutcome => {
    const choice = chooseHeight(blocks, latest(), integerOf(asked));
    return choice.ok ? answer(choice.heightBlocks) : failed(choice.fault);
  };
  const headerOf = (stored: StoredBlock | undefined): RpcOutcome =>
    result({ header: stored === undefined ? null : headerToRpcJson(stored.block.header) });

  const blockchain = async (min: bigint, max: bigint, caller: RpcCaller): Promise<RpcOutcome> => {
    if (min < 0n || max < 0n) return failed("heights must be non-negative");
    const newest = latest();
    const to = max === 0n || max > newest ? newest : max;
    let from = min === 0n ? 1n : min;
    for (const bound of [blocks.baseHeightBlocks(), to - MOST_METAS + 1n]) if (from < bound) from = bound;
    if (from > to) return failed(`min height ${from} can't be greater than max height ${to}`);
    const heights = Array.from({ length: Number(to - from) + 1 }, (_, i) => to - BigInt(i));
    const metas = await makeInSteps(
      heights,
      (height) => {
        const stored = blocks.block(height);
        return { value: stored === undefined ? null : blockMetaJson(stored), bytes: stored?.sizeBytes ?? 0 };
      },
      stepsOf(queue, caller),
    );
    return metas === undefined ? BUSY : result({ last_height: newest.toString(), block_metas: metas });
  };

  const blockSearch = async (
    [query, page, perPage, orderBy]: readonly ArgumentValue[],
    caller: RpcCaller,
  ): Promise<RpcOutcome> => {
    const parsed = parseEventQuery(textOf(query));
    if (!parsed.ok) return failed(parsed.fault);
    const order = orderOf(textOf(orderBy), "desc");
    if (order === undefined) return failed(ORDER_FAULT);
    const take = pageSize(integerOf(perPage));
    const skip = skipOf(integerOf(page), take);
    const { items, total } = await blocks.searchBlocks(textOf(query), { order, skip, take });
    const fault = pageFault(integerOf(page), take, total);
    if (fault !== undefined) return failed(fault);
    const texts = await listText(items, storedBlockJson, stepsOf(queue, caller));
    return texts === undefined ? BUSY : resultText(`{"blocks":${texts},"total_count":"${total}"}`);
  };

  const blockResults = async (at: bigint, caller: RpcCaller): Promise<RpcOutcome> => {
    const results = blocks.results(at);
    if (results === undefined) return failed(`could not find results for height #${at}`);
    const { txResults, events, validatorUpdates, appHash } = results;
    const run = stepsOf(queue, caller);
    const txsText = txResults.length === 0 ? "null" : await listText(txResults, txResultJson, run);
    // CometBFT has null here where a block has no events; clients cannot read that.
    const eventsText = await listText(events, (event) => eventJson(event), run);
    if (txsText === undefined || eventsText === undefined) return BUSY;
    const others = goJsonText({
      validator_updates: validatorUpdates.length === 0 ? null : validatorUpdatesJson(validatorUpdates),
      consensus_param_updates: consensusParamUpdatesJson(genesis.consensus.params),
      app_hash: base64OrNull(appHash),
    });
    const head = `{"height":"${at}","txs_results":${txsText},"finalize_block_events":${eventsText},`;
    return resultText(head + others.slice(1));
  };

  return {
    blockchain: {
      args: args("minHeight:int64 maxHeight:int64"),
      cacheable: true,
      call: ([min, max], caller) => blockchain(integerOf(min) ?? 0n, integerOf(max) ?? 0n, caller),
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
      call: ([height], caller) => atHeight(height, (at) => blockResults(at, caller)),
    },
    block_search: { args: args("query:string page:int per_page:int order_by:string"), call: blockSearch },
  };
}
