import type { Address } from "@turnpike/base";
import { keccak256 } from "@turnpike/crypto";
import type { TransferFields } from "../evm/abi.ts";

/** EIP-712 domain of a token. */
export interface TokenDomain {
  readonly name: string;
  readonly version: string;
  readonly chainId: number;
  readonly asset: Address;
}

const hashText = (text: string): Uint8Array => keccak256(Buffer.from(text, "utf8"));

const DOMAIN_TYPEHASH = hashText("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
// EIP-3009
const TRANSFER_TYPEHASH = hashText(
  "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
);

/** EIP-712 domain separator of a token that has a name, a version, a chain and an address. */
export function domainSeparator(domain: TokenDomain): Uint8Array {
  const words = Buffer.alloc(5 * 32);
  words.set(DOMAIN_TYPEHASH, 0);
  words.set(hashText(domain.name), 32);
  words.set(hashText(domain.version), 64);
  writeUint(words, BigInt(domain.chainId), 96);
  writeAddress(words, domain.asset, 128);
  return keccak256(words);
}

// Written over for each digest: making them anew would cost as much as the hashes.
const structWords = Buffer.alloc(7 * 32);
structWords.set(TRANSFER_TYPEHASH, 0);
const envelope = Buffer.alloc(2 + 32 + 32);
envelope[0] = 0x19;
envelope[1] = 0x01;

/** EIP-712 digest of an EIP-3009 `TransferWithAuthorization`: what the payer signs. */
export function transferDigest(separator: Uint8Array, fields: TransferFields): Uint8Array {
  writeAddress(structWords, fields.from, 32);
  writeAddress(structWords, fields.to, 64);
  writeUint(structWords, fields.value, 96);
  writeUint(structWords, fields.validAfter, 128);
  writeUint(structWords, fields.validBefore, 160);
  structWords.write(fields.nonce.slice(2), 192, "hex");
  envelope.set(separator, 2);
  envelope.set(keccak256(structWords), 34);
  return keccak256(envelope);
}

function writeAddress(into: Buffer, address: Address, at: number): void {
  into.write(address.slice(2), at + 12, "hex");
}

function writeUint(into: Buffer, value: bigint, at: number): void {
  if (value < 0x1_0000_0000_0000_0000n) {
    into.fill(0, at, at + 24);
    into.writeBigUInt64BE(value, at + 24);
  } else {
    into.write(value.toString(16).padStart(64, "0"), at, "hex");
  }
}
