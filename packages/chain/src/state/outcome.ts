import { trimEndOf } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import type { ChainEvent } from "./context.ts";

/** Why a transaction, a message or a query is refused, as the chain's clients see it. */
export interface TxFault {
  readonly codespace: string;
  readonly code: number;
  readonly text: string;
}

/** What became of a transaction: code 0 and its data, or a code, a codespace and a text. */
export interface TxResult {
  readonly code: number;
  readonly codespace: string;
  readonly log: string;
  /** `TxMsgData` of a transaction that was run. */
  readonly data: Bytes;
  /** Both are signed numbers of 64 bits. */
  readonly gasWanted: bigint;
  readonly gasUsed: bigint;
  readonly events: readonly ChainEvent[];
}

/** What a step gives: a value, or the fault that ends the transaction. */
export type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: TxFault };

/** A registered error of a module. */
export interface FaultKind {
  readonly codespace: string;
  readonly code: number;
  readonly text: string;
}

const sdk = (code: number, text: string): FaultKind => ({ codespace: "sdk", code, text });

/** The errors of codespace `sdk`, with its numbers and texts. */
export const SDK = {
  txDecode: sdk(2, "tx parse error"),
  unauthorized: sdk(4, "unauthorized"),
  insufficientFunds: sdk(5, "insufficient funds"),
  unknownRequest: sdk(6, "unknown request"),
  invalidAddress: sdk(7, "invalid address"),
  invalidPublicKey: sdk(8, "invalid pubkey"),
  unknownAddress: sdk(9, "unknown address"),
  invalidCoins: sdk(10, "invalid coins"),
  outOfGas: sdk(11, "out of gas"),
  memoTooLarge: sdk(12, "memo too large"),
  insufficientFee: sdk(13, "insufficient fee"),
  tooManySignatures: sdk(14, "maximum number of signatures exceeded"),
  noSignatures: sdk(15, "no signatures supplied"),
  invalidRequest: sdk(18, "invalid request"),
  txTooLarge: sdk(21, "tx too large"),
  txTimeoutHeight: sdk(30, "tx timeout height"),
  unknownExtensionOptions: sdk(31, "unknown extension options"),
  mempoolIsFull: sdk(20, "mempool is full"),
  wrongSequence: sdk(32, "incorrect account sequence"),
  notSupported: sdk(37, "feature not supported"),
  invalidGasLimit: sdk(41, "invalid gas limit"),
  txTimeout: sdk(42, "tx timeout"),
} as const;

/** Maximum bytes of a fault's text: it stands in the result of a transaction, on every node's disk. */
export const MAX_TEXT_BYTES: number = 2_048;
const CUT = " ... ";

/** A text of at most 2,048 bytes in UTF-8: of a longer one the beginning and the end, which names the cause. */
export function boundedText(text: string): string {
  if (text.length * 3 <= MAX_TEXT_BYTES || Buffer.byteLength(text) <= MAX_TEXT_BYTES) return text;
  const half = Math.floor((MAX_TEXT_BYTES - CUT.length) / 2);
  const head = Buffer.from(text.slice(0, half)).subarray(0, half).toString("utf8");
  const tail = Buffer.from(text.slice(-half)).subarray(-half).toString("utf8");
  // A character that was cut in two decodes to U+FFFD, which is longer than what is left of it.
  return `${trimEndOf(head, "\ufffd")}${CUT}${tail.replace(/^\ufffd+/, "")}`;
}

/** A fault with this text in front of its own, as the SDK wraps an error. */
export function faultIn(text: string, fault: TxFault): TxFault {
  return { ...fault, text: boundedText(`${text}: ${fault.text}`) };
}

/** A value that a step gives. */
export function done<T>(value: T): Outcome<T> {
  return { ok: true, value };
}

/** A fault: the text in front of the error's own, as the SDK wraps it; no text gives the error's own alone. */
export function fail(kind: FaultKind, text?: string): { readonly ok: false; readonly fault: TxFault } {
  const whole = text === undefined ? kind.text : `${text}: ${kind.text}`;
  return { ok: false, fault: { codespace: kind.codespace, code: kind.code, text: boundedText(whole) } };
}

/** Text of an error behind what it wraps. */
export function wrapped(kind: FaultKind, text: string): string {
  return fail(kind, text).fault.text;
}

/** A fault without a registered error, such as a gRPC status: code 1 of codespace `undefined`, the text as it is. */
export function failPlain(text: string): { readonly ok: false; readonly fault: TxFault } {
  return { ok: false, fault: { codespace: "undefined", code: 1, text: boundedText(text) } };
}
