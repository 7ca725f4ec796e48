import type { Address } from "@turnpike/base";
import { keccak256 } from "./hash.ts";

/** The mixed-case spelling of an address (EIP-55). The argument is `0x` and 40 hex digits in any case. */
export function checksumAddress(address: Address): Address {
  const digits = address.slice(2).toLowerCase();
  const hash = keccak256(Buffer.from(digits, "latin1"));
  let text: Address = "0x";
  for (let i = 0; i < 40; i++) {
    const digit = digits.charAt(i);
    const byte = hash[i >> 1] ?? 0;
    text += (i % 2 === 0 ? byte >> 4 : byte & 15) >= 8 ? digit.toUpperCase() : digit;
  }
  return text;
}
