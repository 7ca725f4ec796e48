import { crc32 } from "node:zlib";
import { isRecord } from "@turnpike/base";
import type { PurchaseReceipt, SpendEnd, SpendOutcome } from "./types.ts";

/**
 * Outcome of a signed payment. `used`: the chain showed that it was taken, and no answer was handed out for it so far. `moved`: another
 * journal has it now, and counts it.
 */
export type RecordedOutcome = SpendOutcome | SpendEnd | "used" | "moved";

/** One line of a journal. */
export type JournalRecord =
  | {
      /** The first line: what earlier lines, which are no longer kept, add up to. */
      readonly t: "journal";
      readonly version: 1;
      readonly chargedMicroUsd: bigint;
      readonly calls: number;
      /** The next call's id. */
      readonly nextId: number;
    }
  | {
      readonly t: "reserve";
      readonly id: number;
      readonly service: string;
      readonly requestHash: string;
      readonly microUsd: bigint;
    }
  | { readonly t: "signed"; readonly id: number; readonly payment: string; readonly signedAt: string }
  | { readonly t: "receipt"; readonly id: number; readonly receipt: PurchaseReceipt }
  | {
      readonly t: "end";
      readonly id: number;
      readonly outcome: RecordedOutcome;
      /** Number of the result among those of its payment that said that it was charged; absent in older journals. */
      readonly result?: number | undefined;
    };

/** Start of every journal file. */
export const JOURNAL_START = '{"n":0,"t":"journal","version":1,';

const CRC = /,"crc":"([0-9a-f]{8})"\}$/;
const UINT = /^(?:0|[1-9][0-9]{0,77})$/;
const OUTCOMES: readonly string[] = [
  "charged",
  "unacknowledged",
  "claimed",
  "uncharged",
  "unserved",
  "open",
  "used",
  "void",
  "moved",
] satisfies RecordedOutcome[];

const crcOf = (text: string): string => crc32(text).toString(16).padStart(8, "0");

/** A longer line is damage: a payment is a few kilobytes. */
export const MAX_LINE_BYTES = 256 * 1024;

/** True for a record whose line can be read again: behind a longer one, nothing of a file could. */
export function isRecordable(record: JournalRecord): boolean {
  return Buffer.byteLength(encodeRecord(record, Number.MAX_SAFE_INTEGER)) < MAX_LINE_BYTES;
}

/** A record as a line, with its number and a checksum, and without a line end. */
export function encodeRecord(record: JournalRecord, n: number): string {
  const json = JSON.stringify({ n, ...record }, (_, value: unknown) =>
    typeof value === "bigint" ? value.toString() : value,
  );
  return `${json.slice(0, -1)},"crc":"${crcOf(json)}"}`;
}

const count = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
const text = (value: unknown): value is string => typeof value === "string";
const textOrNone = (value: unknown): value is string | undefined => value === undefined || text(value);
const micro = (value: unknown): value is string => text(value) && UINT.test(value);

function storedReceipt(json: unknown): PurchaseReceipt | undefined {
  if (!isRecord(json) || typeof json.success !== "boolean") return undefined;
  const { success, transaction, network, payer, payTo, amount, asset, errorReason, settlementId } = json;
  if (!text(transaction) || !text(network) || !textOrNone(payer) || !textOrNone(payTo) || !textOrNone(amount)) {
    return undefined;
  }
  if (!textOrNone(asset) || !textOrNone(errorReason) || !textOrNone(settlementId)) return undefined;
  return { success, transaction, network, payer, payTo, amount, asset, errorReason, settlementId };
}

function recordOf(json: unknown): JournalRecord | undefined {
  if (!isRecord(json)) return undefined;
  const { t } = json;
  if (t === "journal") {
    const { version, chargedMicroUsd, calls, nextId } = json;
    if (version !== 1 || !micro(chargedMicroUsd) || !count(calls) || !count(nextId)) return undefined;
    return { t, version, chargedMicroUsd: BigInt(chargedMicroUsd), calls, nextId };
  }
  const { id } = json;
  if (!count(id)) return undefined;
  if (t === "reserve") {
    const { service, requestHash, microUsd } = json;
    if (!text(service) || !text(requestHash) || !micro(microUsd)) return undefined;
    return { t, id, service, requestHash, microUsd: BigInt(microUsd) };
  }
  if (t === "signed") {
    const { payment, signedAt } = json;
    return text(payment) && text(signedAt) ? { t, id, payment, signedAt } : undefined;
  }
  if (t === "receipt") {
    const receipt = storedReceipt(json.receipt);
    return receipt && { t, id, receipt };
  }
  const { outcome, result } = json;
  if (t !== "end" || !text(outcome) || !OUTCOMES.includes(outcome)) return undefined;
  return result === undefined || count(result) ? { t, id, outcome: outcome as RecordedOutcome, result } : undefined;
}

/** Reads the line of number `n`; undefined when it is not that, in whole. */
export function decodeRecord(line: string, n: number): JournalRecord | undefined {
  const [end = "", crc] = CRC.exec(line) ?? [];
  const json = `${line.slice(0, line.length - end.length)}}`;
  if (crc === undefined || crcOf(json) !== crc) return undefined;
  try {
    const parsed = JSON.parse(json) as unknown;
    return isRecord(parsed) && parsed.n === n ? recordOf(parsed) : undefined;
  } catch {
    return undefined;
  }
}
