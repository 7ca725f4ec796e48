/** One, as the SDK's decimals of 18 places are kept: whole numbers of 10^-18. */
export const DECIMAL_ONE = 10n ** 18n;

const WHOLE = /^-?\d{1,95}$/;
const MOST_BITS = 315n;

/** A kept whole number or decimal; undefined for a text that is none of at most 315 bits. */
export function readWhole(text: string): bigint | undefined {
  if (!WHOLE.test(text)) return undefined;
  const value = BigInt(text);
  return (value < 0n ? -value : value) >> MOST_BITS === 0n ? value : undefined;
}

/** A kept decimal as events and errors show it, with 18 places. */
export function decimalText(value: bigint): string {
  const digits = (value < 0n ? -value : value).toString().padStart(19, "0");
  return `${value < 0n ? "-" : ""}${digits.slice(0, -18)}.${digits.slice(-18)}`;
}
