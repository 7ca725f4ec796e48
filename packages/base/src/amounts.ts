import { AppError } from "./errors.ts";
import { trimEndOf } from "./trim.ts";

const DECIMAL = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?$/;

/**
 * A decimal text in a token's smallest unit: `decimalToUnits("0.005000", 6)` is `5000n`.
 * @throws AppError CONFIG_INVALID when the text is no decimal, or has more places than the token.
 */
export function decimalToUnits(text: string, decimals: number): bigint {
  const found = DECIMAL.exec(text);
  const whole = found?.[1];
  if (whole === undefined) {
    throw new AppError("CONFIG_INVALID", { message: `${JSON.stringify(text)} is not a decimal amount.` });
  }
  const places = trimEndOf(found?.[2] ?? "", "0");
  if (places.length > decimals) {
    throw new AppError("CONFIG_INVALID", { message: `${text} cannot be paid in units of 10^-${decimals}.` });
  }
  return BigInt(whole + places.padEnd(decimals, "0"));
}

/** Units as a decimal text with all places: `unitsToDecimal(5000n, 6)` is `"0.005000"`. */
export function unitsToDecimal(units: bigint, decimals: number): string {
  const sign = units < 0n ? "-" : "";
  const digits = (units < 0n ? -units : units).toString().padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  return decimals === 0 ? `${sign}${whole}` : `${sign}${whole}.${digits.slice(-decimals)}`;
}
