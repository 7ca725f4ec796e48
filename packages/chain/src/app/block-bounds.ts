import type { Bytes } from "@turnpike/chain-store";
import { varint } from "@turnpike/cometbft";
import { decodeMessage, tx as txs } from "@turnpike/proto";

/** Bounds of a block by the consensus parameters; -1 of either: any. */
export interface BlockBounds {
  readonly maxBlockGas: bigint;
  readonly maxBlockBytes: bigint;
}

/** Bytes that a transaction takes of a block's data: a tag, its length and itself. */
export function dataBytes({ length }: Bytes): bigint {
  return BigInt(1 + varint(BigInt(length)).length + length);
}

/** Gas that a transaction asks for; 0 of what cannot be read, which is not run. */
function gasWantedOf(tx: Bytes): bigint {
  const raw = decodeMessage(txs.TxRawSchema, tx);
  const info = raw.ok ? decodeMessage(txs.AuthInfoSchema, raw.message.authInfoBytes) : undefined;
  return info?.ok === true ? (info.message.fee?.gasLimit ?? 0n) : 0n;
}

/** How many of these transactions, from the first on, fit into one block. */
export function fittingTxs(list: readonly Bytes[], { maxBlockGas, maxBlockBytes }: BlockBounds): number {
  let [gas, bytes] = [0n, 0n];
  for (const [i, tx] of list.entries()) {
    bytes += dataBytes(tx);
    if (maxBlockBytes >= 0n && bytes > maxBlockBytes) return i;
    if (maxBlockGas < 0n) continue;
    gas += gasWantedOf(tx);
    if (gas > maxBlockGas) return i;
  }
  return list.length;
}
