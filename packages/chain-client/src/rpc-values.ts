import { base64ToBytes, isRecord } from "@turnpike/base";
import type { IncludedTx, TxEvent } from "./types.ts";

/** A text of the node's JSON; "" for anything else. */
export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A whole number of the node's JSON, which has them as numbers or texts; 0 for anything else. */
export function wholeOf(value: unknown): bigint {
  const found = typeof value === "number" ? String(value) : textOf(value);
  return /^-?\d+$/.test(found) ? BigInt(found) : 0n;
}

/** An object of the node's JSON; an empty one for anything else. */
export const recordOf = (value: unknown): Readonly<Record<string, unknown>> => (isRecord(value) ? value : {});

/** Bytes of the node's JSON in base64; none for anything else. */
export const bytesOf = (value: unknown): Uint8Array => base64ToBytes(textOf(value)) ?? new Uint8Array(0);

/** Objects of a list of the node's JSON. */
export const recordsOf = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  (Array.isArray(value) ? value : []).filter(isRecord);

/** Nanoseconds since 1970 of a time in RFC 3339, in UTC; 0 for anything else. */
export function nanosOfTime(time: string): bigint {
  const [, whole = "", fraction = ""] = /^(.*?)(?:\.(\d{1,9}))?Z$/.exec(time) ?? [];
  const ms = Date.parse(`${whole}Z`);
  return Number.isNaN(ms) ? 0n : BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}

function eventsOf(value: unknown): TxEvent[] {
  return recordsOf(value).map(({ type, attributes }) => ({
    type: textOf(type),
    attributes: recordsOf(attributes).map(({ key, value: found }) => ({ key: textOf(key), value: textOf(found) })),
  }));
}

const OUT_OF_GAS = 11;

/**
 * Returns false of a transaction that stands in a block and was not run, as the results of those before it fill the block: no fee was
 * paid, its sequence is not used, and it can be sent again. One that was run has the gas that it asked for.
 */
export function wasRun({ code, codespace, gasWanted }: IncludedTx): boolean {
  return code !== OUT_OF_GAS || codespace !== "sdk" || gasWanted !== 0n;
}

/** A transaction as `tx` and `tx_search` have it. */
export function includedTxOf(answer: Readonly<Record<string, unknown>>): IncludedTx {
  const result = recordOf(answer.tx_result);
  return {
    hash: textOf(answer.hash),
    heightBlocks: wholeOf(answer.height),
    code: Number(result.code ?? 0),
    codespace: textOf(result.codespace),
    log: textOf(result.log),
    info: textOf(result.info),
    data: bytesOf(result.data),
    gasWanted: wholeOf(result.gas_wanted),
    gasUsed: wholeOf(result.gas_used),
    events: eventsOf(result.events),
    txBytes: bytesOf(answer.tx),
  };
}
