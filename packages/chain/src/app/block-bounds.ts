import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Bytes } from "@turnpike/chain-store";
import { varint } from "@turnpike/cometbft";
import { decodeMessage, tx as txs } from "@turnpike/proto";
import { boundsFault } from "../state/read-message.ts";

/** Bounds of a block by the consensus parameters; -1 of either: any. */
export interface BlockBounds {
  readonly maxBlockGas: bigint;
  readonly maxBlockBytes: bigint;
}

/**
 * Maximum number of transactions of a proposal: a block of the shortest that can be valid, of some 220 bytes, has as many. Without it a
 * block's bytes hold seven million of one byte, which fail without a fee and have a result each.
 */
export const MAX_BLOCK_TXS = 100_000;

/** Bytes that a transaction takes of a block's data: a tag, its length and itself. */
export function dataBytes({ length }: Bytes): bigint {
  return BigInt(1 + varint(BigInt(length)).length + length);
}

function bounded<Desc extends DescMessage>(schema: Desc, bytes: Bytes): MessageShape<Desc> | undefined {
  if (boundsFault(schema, bytes) !== undefined) return undefined;
  const decoded = decodeMessage(schema, bytes);
  return decoded.ok ? decoded.message : undefined;
}

/** Gas that a transaction asks for; 0 of what cannot be read or exceeds the bounds of what is read, which is not run. */
function gasWantedOf(tx: Bytes): bigint {
  const raw = bounded(txs.TxRawSchema, tx);
  const info = raw === undefined ? undefined : bounded(txs.AuthInfoSchema, raw.authInfoBytes);
  return info?.fee?.gasLimit ?? 0n;
}

/** How many of these transactions, from the first on, fit into one block. */
export function fittingTxs(list: readonly Bytes[], { maxBlockGas, maxBlockBytes }: BlockBounds): number {
  let [gas, bytes] = [0n, 0n];
  for (const [i, tx] of list.entries()) {
    if (i >= MAX_BLOCK_TXS) return i;
    bytes += dataBytes(tx);
    if (maxBlockBytes >= 0n && bytes > maxBlockBytes) return i;
    if (maxBlockGas < 0n) continue;
    gas += gasWantedOf(tx);
    if (gas > maxBlockGas) return i;
  }
  return list.length;
}
