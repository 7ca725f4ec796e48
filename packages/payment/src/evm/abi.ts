import type { Address } from "@turnpike/base";

/** `0x` and lower-case hex: calldata and results stay in the form that JSON-RPC carries them in. */
export type Hex = `0x${string}`;

/** What EIP-3009's `transferWithAuthorization` takes beside the signature. */
export interface TransferFields {
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly nonce: Hex;
}

/** One call of Multicall3's `aggregate3`. */
export interface Call3 {
  readonly target: Address;
  readonly allowFailure: boolean;
  readonly callData: Hex;
}

/** One transfer of the contract SettlementBatch. */
export interface BatchTransfer {
  readonly token: Address;
  readonly fields: TransferFields;
  /** 65 bytes: r, s, v. */
  readonly signature: Uint8Array;
}

/** One result of `aggregate3`. */
export interface Result3 {
  readonly success: boolean;
  readonly returnData: Hex;
}

// First four bytes of keccak256 of the signature; the tests compute them again.
const TRANSFER_VRS = "e3ee160e"; // transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)
const TRANSFER_BYTES = "cf092995"; // transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)
const AGGREGATE3 = "82ad56cb"; // aggregate3((address,bool,bytes)[])
const SETTLE = "2b837eb0"; // settle(uint256,(address,address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)[])
const PAYER_HAS_CODE = "796b13ed"; // PayerHasCode()
const PAYER_FAILED = "2c331213"; // PayerFailed()
const AUTHORIZATION_STATE = "e94a0102"; // authorizationState(address,bytes32)
const BALANCE_OF = "70a08231"; // balanceOf(address)
const IS_VALID_SIGNATURE = "1626ba7e"; // isValidSignature(bytes32,bytes)
const ERROR = "08c379a0"; // Error(string)

/** Calldata of functions without arguments. */
export const CALLS = {
  /** Multicall3 `getBlockNumber()`. */
  getBlockNumber: "0x42cbb15c",
  /** Multicall3 `getCurrentBlockTimestamp()`. */
  getCurrentBlockTimestamp: "0x0f28c97d",
  name: "0x06fdde03",
  version: "0x54fd4d50",
  decimals: "0x313ce567",
  /** EIP-712 `DOMAIN_SEPARATOR()`. */
  domainSeparator: "0x3644e515",
} as const satisfies Record<string, Hex>;

const ZEROS = "0".repeat(64);

function word(value: bigint | number): string {
  return value.toString(16).padStart(64, "0");
}

function addressWord(address: string): string {
  return `000000000000000000000000${address.slice(2).toLowerCase()}`;
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/** Length, then the bytes, filled up to whole words. */
function bytesTail(digits: string): string {
  const over = digits.length % 64;
  return word(digits.length / 2) + digits + (over === 0 ? "" : ZEROS.slice(over));
}

function transferHead(fields: TransferFields): string {
  return (
    addressWord(fields.from) +
    addressWord(fields.to) +
    word(fields.value) +
    word(fields.validAfter) +
    word(fields.validBefore) +
    fields.nonce.slice(2).toLowerCase()
  );
}

/** A signature of 65 bytes (r, s, v) as `uint8 v, bytes32 r, bytes32 s`. */
function signatureWords(signature: Uint8Array): string {
  const digits = hexOf(signature);
  return digits.slice(128).padStart(64, "0") + digits.slice(0, 128);
}

/** `transferWithAuthorization(…, uint8 v, bytes32 r, bytes32 s)` with a signature of 65 bytes (r, s, v). */
export function encodeTransferVrs(fields: TransferFields, signature: Uint8Array): Hex {
  return `0x${TRANSFER_VRS}${transferHead(fields)}${signatureWords(signature)}`;
}

/** `transferWithAuthorization(…, bytes signature)`: what a token needs for a contract wallet. */
export function encodeTransferBytes(fields: TransferFields, signature: Uint8Array): Hex {
  return `0x${TRANSFER_BYTES}${transferHead(fields)}${word(224)}${bytesTail(hexOf(signature))}`;
}

/** EIP-3009 `authorizationState(authorizer, nonce)`: true when the nonce is used or cancelled. */
export function encodeAuthorizationState(from: Address, nonce: Hex): Hex {
  return `0x${AUTHORIZATION_STATE}${addressWord(from)}${nonce.slice(2).toLowerCase()}`;
}

/** ERC-20 `balanceOf(account)`. */
export function encodeBalanceOf(account: Address): Hex {
  return `0x${BALANCE_OF}${addressWord(account)}`;
}

/** ERC-1271 `isValidSignature(digest, signature)`. */
export function encodeIsValidSignature(digest: Uint8Array, signature: Uint8Array): Hex {
  return `0x${IS_VALID_SIGNATURE}${hexOf(digest)}${word(64)}${bytesTail(hexOf(signature))}`;
}

/** True for what a wallet returns that accepts a signature: the selector, and nothing else in its word. */
export function isMagicValue(data: unknown): boolean {
  return typeof data === "string" && data.toLowerCase() === `0x${IS_VALID_SIGNATURE}${ZEROS.slice(8)}`;
}

/** The sentence of a revert (`Error(string)`); undefined when the data is none. */
export function decodeRevert(data: unknown): string | undefined {
  return isHex(data) && data.slice(2, 10) === ERROR ? decodeString(`0x${data.slice(10)}`) : undefined;
}

/** Multicall3 `aggregate3(calls)`. */
export function encodeAggregate3(calls: readonly Call3[]): Hex {
  let offsets = "";
  let tails = "";
  for (const call of calls) {
    offsets += word(calls.length * 32 + tails.length / 2);
    tails += `${addressWord(call.target)}${word(call.allowFailure ? 1 : 0)}${word(96)}${bytesTail(call.callData.slice(2))}`;
  }
  return `0x${AGGREGATE3}${word(32)}${word(calls.length)}${offsets}${tails}`;
}

/** `settle(gasEach, transfers)` of the contract SettlementBatch, whose results have the form of `aggregate3`. */
export function encodeSettle(gasEach: bigint, transfers: readonly BatchTransfer[]): Hex {
  const items = transfers.map(
    ({ token, fields, signature }) => addressWord(token) + transferHead(fields) + signatureWords(signature),
  );
  return `0x${SETTLE}${word(gasEach)}${word(64)}${word(transfers.length)}${items.join("")}`;
}

/** True for the result of a transfer that SettlementBatch left out since its payer has code. */
export function isPayerWithCode(result: Result3 | undefined): boolean {
  return result?.success === false && result.returnData.toLowerCase() === `0x${PAYER_HAS_CODE}`;
}

/** True for the result of a transfer that SettlementBatch left out behind a failed one of the same payer. */
export function isBehindFailed(result: Result3 | undefined): boolean {
  return result?.success === false && result.returnData.toLowerCase() === `0x${PAYER_FAILED}`;
}

/** Reads what `aggregate3` returned for `count` calls; undefined when it is not of that form. */
export function decodeAggregate3(data: unknown, count: number): readonly Result3[] | undefined {
  if (!isHex(data)) return undefined;
  const start = 2 + 64;
  if (smallWord(data, 2) !== 32 || smallWord(data, start) !== count) return undefined;
  const base = start + 64;
  const results: Result3[] = [];
  for (let i = 0; i < count; i++) {
    const offset = smallWord(data, base + i * 64);
    if (offset === undefined) return undefined;
    const at = base + offset * 2;
    const success = smallWord(data, at);
    const tail = smallWord(data, at + 64);
    if (success === undefined || success > 1 || tail === undefined) return undefined;
    const returnData = bytesAt(data, at + tail * 2);
    if (returnData === undefined) return undefined;
    results.push({ success: success === 1, returnData });
  }
  return results;
}

/** Reads one `uint256`; undefined when the data is not one word. */
export function decodeUint(data: unknown): bigint | undefined {
  return isHex(data) && data.length === 66 ? BigInt(data) : undefined;
}

/** Reads one `bool`; undefined when the data is not one. */
export function decodeBool(data: unknown): boolean | undefined {
  const value = decodeUint(data);
  return value === 0n ? false : value === 1n ? true : undefined;
}

/** Reads one `bytes32` as lower-case hex; undefined when the data is not one word. */
export function decodeBytes32(data: unknown): Hex | undefined {
  return isHex(data) && data.length === 66 ? (data.toLowerCase() as Hex) : undefined;
}

/** Reads one `string`; undefined when the data is not one in UTF-8. */
export function decodeString(data: unknown): string | undefined {
  if (!isHex(data) || smallWord(data, 2) !== 32) return undefined;
  const text = bytesAt(data, 66);
  return text === undefined ? undefined : Buffer.from(text.slice(2), "hex").toString("utf8");
}

/** Reads a JSON-RPC quantity (`0x1f`); undefined when it is not one of at most 256 bits. */
export function decodeQuantity(value: unknown): bigint | undefined {
  return typeof value === "string" && /^0x[0-9a-fA-F]{1,64}$/.test(value) ? BigInt(value) : undefined;
}

/** True for `0x` and whole bytes in hex. */
export function isHex(value: unknown): value is Hex {
  return typeof value === "string" && value.length % 2 === 0 && /^0x[0-9a-fA-F]*$/.test(value);
}

/** An offset or a length: no answer is as long as 2^32 bytes. */
function smallWord(data: string, at: number): number | undefined {
  if (at + 64 > data.length || data.slice(at, at + 56) !== ZEROS.slice(0, 56)) return undefined;
  return Number.parseInt(data.slice(at + 56, at + 64), 16);
}

function bytesAt(data: string, at: number): Hex | undefined {
  const length = smallWord(data, at);
  if (length === undefined || at + 64 + length * 2 > data.length) return undefined;
  return `0x${data.slice(at + 64, at + 64 + length * 2)}`;
}
