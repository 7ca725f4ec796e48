import { AppError } from "@turnpike/base";
import type { StoredBlock } from "@turnpike/chain-node";
import { encodeBlock, encodeBlockId } from "@turnpike/cometbft";
import { encodeBech32 } from "@turnpike/crypto";
import { baseTendermint, cometTypes, createMessage, decodeMessage } from "@turnpike/proto";

/** What addresses of validators' signing keys begin with. */
export const CONSENSUS_PREFIX = "poktvalcons";

/** A block and its id as protobuf messages. */
export function blockMessages({ block, id }: StoredBlock): {
  readonly blockId: cometTypes.BlockID;
  readonly block: cometTypes.Block;
} {
  const blockId = decodeMessage(cometTypes.BlockIDSchema, encodeBlockId(id));
  const whole = decodeMessage(cometTypes.BlockSchema, encodeBlock(block));
  if (!blockId.ok || !whole.ok) throw new AppError("INTERNAL", { detail: { heightBlocks: block.header.height } });
  return { blockId: blockId.message, block: whole.message };
}

/** The same with the SDK's own form of the block beside it, which names the proposer in bech32. */
export function sdkBlockMessages(stored: StoredBlock): {
  readonly blockId: cometTypes.BlockID;
  readonly block: cometTypes.Block;
  readonly sdkBlock: baseTendermint.Block;
} {
  const { blockId, block } = blockMessages(stored);
  const { header, data, evidence, lastCommit } = block;
  const sdkBlock = createMessage(baseTendermint.BlockSchema);
  if (header !== undefined) {
    const { $typeName: _, ...fields } = header;
    const proposerAddress = encodeBech32(CONSENSUS_PREFIX, header.proposerAddress);
    sdkBlock.header = createMessage(baseTendermint.HeaderSchema, { ...fields, proposerAddress });
  }
  if (data !== undefined) sdkBlock.data = data;
  if (evidence !== undefined) sdkBlock.evidence = evidence;
  if (lastCommit !== undefined) sdkBlock.lastCommit = lastCommit;
  return { blockId, block, sdkBlock };
}
