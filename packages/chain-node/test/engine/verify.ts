import assert from "node:assert/strict";
import type { Bytes } from "@turnpike/chain-store";
import {
  type BlockExpectation,
  consensusHash,
  type LightBlock,
  resultsHash,
  rfc3339ToNs,
  verifyNextBlock,
} from "@turnpike/cometbft";
import type { EmbeddedNode, StoredBlock } from "../../src/types.ts";

/** What is there. */
export function must<T>(value: T | undefined, what = "value"): T {
  assert.ok(value !== undefined, `${what} is missing`);
  return value;
}

/** A block as a light client gets it. */
export function lightAt(node: EmbeddedNode, heightBlocks: bigint): LightBlock {
  return {
    header: must(node.blocks.block(heightBlocks)).block.header,
    commit: must(node.blocks.commit(heightBlocks)).commit,
    validators: must(node.blocks.validators(heightBlocks)),
  };
}

/** Checks every block of a chain against the one before it, as a full node of CometBFT does. */
export function verifyWholeChain(node: EmbeddedNode, genesisAppHash?: Bytes): void {
  const { genesis, blocks } = node;
  const { block: limits, version } = genesis.consensus.params;
  let last: StoredBlock | undefined;
  const first = BigInt(genesis.initial_height);
  for (let height = first; height <= blocks.latestHeightBlocks(); height++) {
    const stored = must(blocks.block(height), `block ${height}`);
    const before = last === undefined ? undefined : must(blocks.results(height - 1n));
    const expected: BlockExpectation = {
      chainId: genesis.chain_id,
      appVersion: BigInt(version.app),
      initialHeight: first,
      genesisTimeNs: must(rfc3339ToNs(genesis.genesis_time)),
      last: last && {
        id: last.id,
        height: height - 1n,
        timeNs: last.block.header.timeNs,
        validators: must(blocks.validators(height - 1n)),
      },
      validators: must(blocks.validators(height)),
      nextValidators: blocks.validators(height + 1n) ?? must(blocks.validators(height)),
      consensusHash: consensusHash({ maxBytes: BigInt(limits.max_bytes), maxGas: BigInt(limits.max_gas) }),
      appHash: before?.appHash ?? genesisAppHash ?? stored.block.header.appHash,
      lastResultsHash: resultsHash(before?.txResults ?? []),
    };
    const verdict = verifyNextBlock(stored.block, expected);
    assert.deepEqual(verdict, { ok: true }, `block ${height}`);
    last = stored;
  }
}
