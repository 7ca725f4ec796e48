import { type Address, bytesToHex0x, concatBytes } from "@turnpike/base";
import { keccak256, sign } from "@turnpike/crypto";
import type { Hex } from "./abi.ts";

/** An EIP-1559 transaction that calls a contract. Fees are in wei per unit of gas. */
export interface Eip1559Transaction {
  readonly chainId: number;
  readonly nonce: number;
  readonly maxPriorityFeePerGas: bigint;
  readonly maxFeePerGas: bigint;
  readonly gasLimit: bigint;
  readonly to: Address;
  readonly value: bigint;
  readonly data: Hex;
}

/** Chain id, nonce, both fees and the gas limit: integers of less than 56 bytes. */
const FIELDS_BEFORE_TARGET = 5;

/** A transaction ready to be sent: `eth_sendRawTransaction` takes `raw` as hex. */
export interface SignedTransaction {
  readonly hash: Hex;
  readonly raw: Uint8Array;
}

/**
 * Builds and signs a transaction of type 2 (EIP-1559, EIP-2718) without an access list. Deterministic: the same
 * transaction and key give the same bytes.
 * @throws AppError CONFIG_INVALID when the key is not a private key.
 */
export function signTransaction(transaction: Eip1559Transaction, privateKey: Uint8Array): SignedTransaction {
  const fields = [
    rlpInteger(BigInt(transaction.chainId)),
    rlpInteger(BigInt(transaction.nonce)),
    rlpInteger(transaction.maxPriorityFeePerGas),
    rlpInteger(transaction.maxFeePerGas),
    rlpInteger(transaction.gasLimit),
    rlpBytes(hexBytes(transaction.to)),
    rlpInteger(transaction.value),
    rlpBytes(hexBytes(transaction.data)),
    rlpList([]),
  ];
  const type = Uint8Array.of(2);
  const { r, s, yParity } = sign(keccak256(concatBytes(type, rlpList(fields))), privateKey);
  const signature = [rlpInteger(BigInt(yParity)), rlpBytes(withoutZeros(r)), rlpBytes(withoutZeros(s))];
  const raw = concatBytes(type, rlpList([...fields, ...signature]));
  return { hash: bytesToHex0x(keccak256(raw)), raw };
}

/** Target of a transaction that {@link signTransaction} signed; undefined for any other bytes. */
export function transactionTarget(raw: Uint8Array): Address | undefined {
  const list = raw[1] ?? 0;
  if (raw[0] !== 2 || list < 0xc0) return undefined;
  let at = list < 0xf8 ? 2 : 2 + list - 0xf7;
  for (let field = 0; field < FIELDS_BEFORE_TARGET; field++) {
    const head = raw[at];
    if (head === undefined || head > 0xb7) return undefined;
    at += head < 0x80 ? 1 : 1 + head - 0x80;
  }
  const isAddress = raw[at] === 0x80 + 20 && raw.length > at + 20;
  return isAddress ? bytesToHex0x(raw.subarray(at + 1, at + 21)) : undefined;
}

function hexBytes(text: Hex): Uint8Array {
  return Buffer.from(text.slice(2), "hex");
}

function withoutZeros(bytes: Uint8Array): Uint8Array {
  let at = 0;
  while (at < bytes.length && bytes[at] === 0) at++;
  return bytes.subarray(at);
}

// RLP: Ethereum Yellow Paper, appendix B.
function rlpInteger(value: bigint): Uint8Array {
  if (value === 0n) return rlpBytes(new Uint8Array());
  const digits = value.toString(16);
  return rlpBytes(Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex"));
}

function rlpBytes(bytes: Uint8Array): Uint8Array {
  const [first] = bytes;
  if (bytes.length === 1 && first !== undefined && first < 0x80) return bytes;
  return concatBytes(rlpLength(bytes.length, 0x80), bytes);
}

function rlpList(items: readonly Uint8Array[]): Uint8Array {
  const body = concatBytes(...items);
  return concatBytes(rlpLength(body.length, 0xc0), body);
}

function rlpLength(length: number, offset: number): Uint8Array {
  if (length < 56) return Uint8Array.of(offset + length);
  const digits = length.toString(16);
  const bytes = Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex");
  return concatBytes(Uint8Array.of(offset + 55 + bytes.length), bytes);
}
