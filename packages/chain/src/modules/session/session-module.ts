import { runPart } from "../../state/block-parts.ts";
import type { Module } from "../../state/module.ts";
import type { ParamMessageOptions } from "../shared/messages.ts";
import { pruneDrawnSessions } from "./drawn.ts";
import { SESSION_GENESIS } from "./genesis.ts";
import { pruneHistory } from "./history.ts";
import { sessionMessages } from "./messages.ts";
import { SESSION_QUERIES } from "./queries.ts";
import { keepBlockHash, SESSION_MODULE } from "./state.ts";

/**
 * The module that draws sessions. Its end of block keeps the block's hash, and prunes the sessions whose proofs
 * were due, with the earlier records that only they needed.
 */
export function sessionModule(opts: ParamMessageOptions): Module {
  return {
    name: SESSION_MODULE,
    messages: sessionMessages(opts),
    queries: SESSION_QUERIES,
    genesis: SESSION_GENESIS,
    endBlock(ctx): undefined {
      keepBlockHash(ctx);
      // Each alone: without its hash the block is lost as a seed for good, while pruning can wait.
      runPart(ctx, { part: "pruning", item: "drawn sessions" }, pruneDrawnSessions);
      runPart(ctx, { part: "pruning", item: "records that sessions needed" }, pruneHistory);
    },
  };
}
