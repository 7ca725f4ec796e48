import { txHash } from "../comet/hashes.ts";
import type { BlockResults, NodeEvent, StoredBlock } from "../node/types.ts";

/** What a node tells of a block, in CometBFT's order. */
export function* blockEvents(block: StoredBlock, results: BlockResults): Generator<NodeEvent> {
  const { header, txs } = block.block;
  yield { type: "NewBlock", block, results };
  yield { type: "NewBlockHeader", block, numTxs: txs.length };
  yield { type: "NewBlockEvents", block, results };
  for (const [index, bytes] of txs.entries()) {
    const result = results.txResults[index];
    if (result === undefined) continue;
    yield { type: "Tx", tx: { hash: txHash(bytes), heightBlocks: header.height, index, bytes, result } };
  }
  if (results.validatorUpdates.length > 0) yield { type: "ValidatorSetUpdates", updates: results.validatorUpdates };
}
