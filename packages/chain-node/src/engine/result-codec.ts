import type { ChainEvent, TxResult } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { cometAbci, createMessage, decodeMessage, encodeMessage } from "@turnpike/proto";
import type { BlockResults } from "../types.ts";
import { COMPACT, decodeCompactResult, encodeCompactResult } from "./compact-result.ts";
import { damagedRecord } from "./record-errors.ts";

/** Results of a block without those of its transactions, which have records of their own. */
export type BlockOutline = Omit<BlockResults, "txResults">;

const toEvents = (events: readonly ChainEvent[]): { type: string; attributes: ChainEvent["attributes"][number][] }[] =>
  events.map(({ type, attributes }) => ({ type, attributes: [...attributes] }));

const readEvents = (events: readonly cometAbci.Event[]): ChainEvent[] =>
  events.map(({ type, attributes }) => ({
    type,
    attributes: attributes.map(({ key, value, index }) => ({ key, value, index })),
  }));

/** Bytes of a transaction's result. */
export function encodeTxResult(result: TxResult): Bytes {
  return encodeCompactResult(result);
}

// What stores up to the format 1 hold.
function decodeProtobuf(bytes: Bytes): TxResult {
  const decoded = decodeMessage(cometAbci.ExecTxResultSchema, bytes);
  if (!decoded.ok) throw damagedRecord("a transaction's result");
  const { code, codespace, log, data, gasWanted, gasUsed, events } = decoded.message;
  return { code, codespace, log, data, gasWanted, gasUsed, events: readEvents(events) };
}

/** Reads {@link encodeTxResult}, and the protobuf of earlier versions. @throws AppError CHAIN_STORE_DAMAGED */
export function decodeTxResult(bytes: Bytes): TxResult {
  if (bytes[0] !== COMPACT) return decodeProtobuf(bytes);
  try {
    return decodeCompactResult(bytes);
  } catch (cause) {
    if (cause instanceof RangeError) throw damagedRecord("a transaction's result");
    throw cause;
  }
}

/** Bytes of a block's results without its transactions'. */
export function encodeOutline({ events, validatorUpdates, appHash }: BlockOutline): Bytes {
  const message = createMessage(cometAbci.ResponseFinalizeBlockSchema, {
    events: toEvents(events),
    validatorUpdates: validatorUpdates.map(({ publicKey, power }) => ({
      pubKey: { sum: { case: "ed25519" as const, value: publicKey } },
      power,
    })),
    appHash,
  });
  return encodeMessage(cometAbci.ResponseFinalizeBlockSchema, message);
}

/** Reads {@link encodeOutline}. @throws AppError CHAIN_STORE_DAMAGED */
export function decodeOutline(heightBlocks: bigint, bytes: Bytes): BlockOutline {
  const decoded = decodeMessage(cometAbci.ResponseFinalizeBlockSchema, bytes);
  if (!decoded.ok) throw damagedRecord("a block's results");
  const { events, validatorUpdates, appHash } = decoded.message;
  return {
    heightBlocks,
    events: readEvents(events),
    validatorUpdates: validatorUpdates.map(({ pubKey, power }) => {
      if (pubKey?.sum.case !== "ed25519") throw damagedRecord("a block's results");
      return { publicKey: pubKey.sum.value, power };
    }),
    appHash,
  };
}
