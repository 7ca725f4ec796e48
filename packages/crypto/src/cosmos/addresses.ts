import { type AddressBytes, AppError, utf8ToBytes } from "@turnpike/base";
import { ripemd160, sha256 } from "../hash.ts";
import { decodeBech32, encodeBech32 } from "./bech32.ts";

/** Prefix of accounts' and modules' addresses on the relay protocol's chain. */
export const ACCOUNT_PREFIX = "pokt";
/** Prefix of validators' operator addresses there. */
export const VALIDATOR_PREFIX = "poktvaloper";

const ADDRESS_BYTES = 20;

/** Address bytes (20) of a compressed secp256k1 key: RIPEMD-160 of SHA-256. @throws AppError INTERNAL when it is not 33 bytes */
export function publicKeyToAddressBytes(publicKey: Uint8Array): AddressBytes {
  if (publicKey.length !== 33) throw new AppError("INTERNAL", { detail: { publicKeyLength: publicKey.length } });
  return ripemd160(sha256(publicKey)) as AddressBytes;
}

/** An account's address, `pokt1…`, from its compressed secp256k1 key. */
export function accountAddress(publicKey: Uint8Array): string {
  return encodeBech32(ACCOUNT_PREFIX, publicKeyToAddressBytes(publicKey));
}

// Of the names that programs ask for again and again: a chain has a dozen.
const MOST_MODULES = 64;
const modules = new Map<string, AddressBytes>();

/** Address bytes (20) of a module's account, which are not to be changed: the beginning of SHA-256 of its name. */
export function moduleAddressBytes(name: string): AddressBytes {
  const known = modules.get(name);
  if (known !== undefined) return known;
  const address = Uint8Array.from(sha256(utf8ToBytes(name)).subarray(0, ADDRESS_BYTES)) as AddressBytes;
  if (modules.size < MOST_MODULES) modules.set(name, address);
  return address;
}

/** A module's address, `pokt1…`. */
export function moduleAddress(name: string): string {
  return encodeBech32(ACCOUNT_PREFIX, moduleAddressBytes(name));
}

/** The operator address `poktvaloper1…` of the account with these address bytes. */
export function validatorAddress(addressBytes: Uint8Array): string {
  return encodeBech32(VALIDATOR_PREFIX, addressBytes);
}

/** The 20 bytes of an address with this prefix; undefined when it is none. */
export function addressToBytes(address: string, prefix: string = ACCOUNT_PREFIX): AddressBytes | undefined {
  const decoded = decodeBech32(address);
  return decoded?.prefix === prefix && decoded.bytes.length === ADDRESS_BYTES
    ? (decoded.bytes as AddressBytes)
    : undefined;
}
