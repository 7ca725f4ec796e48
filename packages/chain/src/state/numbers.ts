const SIGNED_INTEGER = /^[+-]?\d{1,95}$/;
const MAX_INTEGER_BITS = 256n;
const MAX_DECIMAL_BITS = 315n;

/** One, as the SDK's decimals of 18 places are kept: whole numbers of 10^-18. */
export const DECIMAL_ONE = 10n ** 18n;

/** A part of a whole, in units of 10^-18: from 0 to {@link DECIMAL_ONE}. Made by {@link rateOf}. */
export type Rate = bigint & { readonly __brand: "Rate" };

function signedInteger(text: string, maxBits: bigint): bigint | undefined {
  if (!SIGNED_INTEGER.test(text)) return undefined;
  const value = BigInt(text.startsWith("+") ? text.slice(1) : text);
  return (value < 0n ? -value : value) >> maxBits === 0n ? value : undefined;
}

/** Value of a text in the SDK's `Int`; undefined for a text that is not a whole number of at most 256 bits. */
export function integerOf(text: string): bigint | undefined {
  return signedInteger(text, MAX_INTEGER_BITS);
}

/** Value of a text in the SDK's `Dec`, in units of 10^-18; undefined for a text that is not a whole number of at most 315 bits. */
export function decimalOf(text: string): bigint | undefined {
  return signedInteger(text, MAX_DECIMAL_BITS);
}

/** Value of a rate's text; undefined for one that is not a decimal from 0 to 1. */
export function rateOf(text: string): Rate | undefined {
  const value = decimalOf(text);
  return value !== undefined && value >= 0n && value <= DECIMAL_ONE ? (value as Rate) : undefined;
}

/** A decimal as events and errors show it, with 18 places. */
export function decimalText(value: bigint): string {
  const digits = (value < 0n ? -value : value).toString().padStart(19, "0");
  return `${value < 0n ? "-" : ""}${digits.slice(0, -18)}.${digits.slice(-18)}`;
}
