import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Bytes } from "@turnpike/chain-store";
import { varint } from "@turnpike/cometbft";
import { decodeMessage, tx as txs } from "@turnpike/proto";
import { MAX_PROOF_EVENT_BYTES } from "../modules/proof/validate-proofs.ts";
import { MAX_DIFFICULTY_BYTES } from "../modules/tokenomics/move-difficulties.ts";
import { MAX_SETTLEMENT_BYTES } from "../modules/tokenomics/settlement-bytes.ts";
import { MAX_UNBONDING_BYTES } from "../state/event-bytes.ts";
import { fail, SDK, type TxResult } from "../state/outcome.ts";
import { boundsFault } from "../state/read-message.ts";
import { MAX_TX_BYTES, MAX_TX_EVENT_BYTES } from "../tx/tx-bounds.ts";

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

/**
 * Maximum bytes of the results of a block's transactions, but for the last one's: those behind it are not run. CometBFT accepts 100
 * MiB for all results, with the events of the begin and the end of the block. A full block of claims or payments has 20 MB.
 */
export const MAX_BLOCK_RESULT_BYTES = 32 * 1024 * 1024;

/** Bytes of a transaction's result beside the events of its messages: its fee and signatures, at most all of its bytes in base64. */
const MAX_REMAINING_RESULT_BYTES = 2 * MAX_TX_BYTES;

/** Bytes of the configurations that begin: at most seven thousand events of some hundred bytes. */
const MAX_ACTIVATION_BYTES = 4 * 1024 * 1024;

/**
 * Maximum bytes of all results of a block: of its transactions; of settlement, difficulties, proofs, the four queues of what ends
 * with a session (unbonding gateways, applications, suppliers, and transfers), and of configurations that begin. Beyond it go the claims of one session, and one record.
 */
export const MAX_RESULTS_BYTES: number =
  MAX_BLOCK_RESULT_BYTES +
  MAX_TX_EVENT_BYTES +
  MAX_REMAINING_RESULT_BYTES +
  MAX_SETTLEMENT_BYTES +
  MAX_DIFFICULTY_BYTES +
  MAX_PROOF_EVENT_BYTES +
  4 * MAX_UNBONDING_BYTES +
  MAX_ACTIVATION_BYTES;

/** Result of a transaction that is not run, as the results of those before it fill the block; without a fee, and it can be sent again. */
export function unrunResult(): TxResult {
  const { fault } = fail(SDK.outOfGas, "the results of earlier transactions fill the block");
  const { code, codespace, text: log } = fault;
  return { code, codespace, log, data: new Uint8Array(0), gasWanted: 0n, gasUsed: 0n, events: [] };
}

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
