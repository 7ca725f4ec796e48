import { AppError, type ErrorCode } from "./errors.ts";
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

/** An amount of US dollars: a decimal without sign, exponent or leading zeros, below 10^12, of at most 18 places. */
export const USD_AMOUNT = /^(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,18})?$/;

/**
 * Holds that a buyer's text is a {@link USD_AMOUNT}.
 * @throws AppError with `code`; `name` says which amount it is.
 */
export function assertUsd(name: string, text: string, code: ErrorCode): void {
  if (typeof text === "string" && USD_AMOUNT.test(text)) return;
  const shown = JSON.stringify(text) ?? "undefined";
  throw new AppError(code, {
    message: `${name}: ${shown.slice(0, 40)} is no amount of US dollars such as "0.05"; nothing was signed.`,
  });
}
