import { type AccountAddress, type AddressBytes, AppError } from "@turnpike/base";
import { ACCOUNT_PREFIX, bech32Checksum, decodeBech32, encodeBech32 } from "@turnpike/crypto";
import { bytesToText } from "./bytes.ts";
import { done, fail, type Outcome, SDK } from "./outcome.ts";

const MOST_ADDRESS_BYTES = 255;
const MOST_CHARACTERS = 1023;
const FOREIGN = /[^qpzry9x8gf2tvdw0s3jn54khce6mua7l]/;

/** Why a text is no bech32, in the words of the SDK. */
function bech32Fault(text: string): string {
  if (text.length < 8 || text.length > MOST_CHARACTERS) return `invalid bech32 string length ${text.length}`;
  const foreign = /[^!-~]/u.exec(text)?.[0];
  if (foreign !== undefined) return `invalid character in string: '${foreign}'`;
  const lower = text.toLowerCase();
  if (text !== lower && text !== text.toUpperCase()) return "string not all lowercase or all uppercase";
  const split = lower.lastIndexOf("1");
  if (split < 1 || split + 7 > text.length) return `invalid separator index ${split}`;
  const unknown = FOREIGN.exec(lower.slice(split + 1))?.[0];
  if (unknown !== undefined) {
    return `invalid character not part of charset: ${unknown.charCodeAt(0)}`;
  }
  const expected = bech32Checksum(lower.slice(0, split), lower.slice(split + 1, -6));
  const got = lower.slice(-6);
  return expected === got ? "invalid incomplete group" : `invalid checksum (expected ${expected} got ${got})`;
}

/** Address bytes of an account's address, or why it is none. */
export function parseAddress(text: string, prefix: string = ACCOUNT_PREFIX): Outcome<AddressBytes> {
  if (text.trim() === "") return fail(SDK.invalidAddress, "empty address string is not allowed");
  const decoded = decodeBech32(text);
  if (decoded === undefined) return fail(SDK.invalidAddress, `decoding bech32 failed: ${bech32Fault(text)}`);
  if (decoded.prefix !== prefix) {
    return fail(SDK.invalidAddress, `invalid Bech32 prefix; expected ${prefix}, got ${decoded.prefix}`);
  }
  const { length } = decoded.bytes;
  if (length === 0) return fail(SDK.invalidAddress, "addresses cannot be empty: unknown address");
  if (length > MOST_ADDRESS_BYTES) {
    return fail(SDK.invalidAddress, `address max length is 255, got ${length}: unknown address`);
  }
  return done(decoded.bytes as AddressBytes);
}

/** An account's address in its one form, or why a text is none. */
export function parseAccount(text: string): Outcome<AccountAddress> {
  const parsed = parseAddress(text);
  return parsed.ok ? done(text.toLowerCase() as AccountAddress) : parsed;
}

/**
 * Address bytes of an account that was parsed.
 * @throws AppError INTERNAL when another than the parser made the address, as in a state that an earlier version wrote
 */
export function accountBytes(address: AccountAddress): AddressBytes {
  const parsed = parseAddress(address);
  if (!parsed.ok) throw new AppError("INTERNAL", { detail: { address, fault: parsed.fault.text } });
  return parsed.value;
}

/** What is wrong with an address, without the error's own text behind it; undefined when nothing is. */
export function addressFault(text: string, prefix?: string): string | undefined {
  const parsed = parseAddress(text, prefix);
  return parsed.ok ? undefined : parsed.fault.text.slice(0, -`: ${SDK.invalidAddress.text}`.length);
}

/** Bytes of the addresses that the SDK makes: of keys, and of modules (ADR-028). */
const SHARE_ADDRESS_BYTES: readonly number[] = [20, 32];

/**
 * As {@link addressFault}, for an address of which a message may name many, and which is in the events of every payment later:
 * one that a key or a module can have.
 */
export function shareAddressFault(text: string): string | undefined {
  const parsed = parseAddress(text);
  if (!parsed.ok) return addressFault(text);
  const { length } = parsed.value;
  if (SHARE_ADDRESS_BYTES.includes(length)) return undefined;
  return `address length must be ${SHARE_ADDRESS_BYTES.join(" or ")}, got ${length}: unknown address`;
}

/** Addresses whose texts are remembered: some 1 MB. */
const MOST_TEXTS = 4_096;
const texts = new Map<string, AccountAddress>();

/** Address of an account from its bytes. A transaction's events say its few addresses a dozen times. */
export function addressText(bytes: AddressBytes): AccountAddress;
export function addressText(bytes: Uint8Array): string;
export function addressText(bytes: Uint8Array): string {
  const name = bytesToText(bytes);
  const known = texts.get(name);
  if (known !== undefined) return known;
  const text = encodeBech32(ACCOUNT_PREFIX, bytes) as AccountAddress;
  for (const oldest of texts.keys()) {
    if (texts.size < MOST_TEXTS) break;
    texts.delete(oldest);
  }
  texts.set(name, text);
  return text;
}
