import { AppError } from "@turnpike/base";

/** An exact fraction with a positive `den`; {@link rational} and the functions here make it one in lowest terms. */
export interface Rational {
  readonly num: bigint;
  readonly den: bigint;
}

const DECIMAL = /^([+-]?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;

function gcd(a: bigint, b: bigint): bigint {
  let x = a < 0n ? -a : a;
  let y = b < 0n ? -b : b;
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}

/** The smaller of two whole numbers. */
export function least(a: bigint, b: bigint): bigint {
  if (a < b) return a;
  return b;
}

/** The larger of two whole numbers. */
export function greatest(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

/** `num / den` in lowest terms. Throws INTERNAL when `den` is zero. */
export function rational(num: bigint, den = 1n): Rational {
  if (den === 0n) throw new AppError("INTERNAL", { message: "a fraction's denominator is zero" });
  const sign = den < 0n ? -1n : 1n;
  const divisor = gcd(num, den) * sign;
  return { num: num / divisor, den: den / divisor };
}

/** `a + b`. */
export function addRational(a: Rational, b: Rational): Rational {
  return rational(a.num * b.den + b.num * a.den, a.den * b.den);
}

/** `a × b`. */
export function multiplyRational(a: Rational, b: Rational): Rational {
  return rational(a.num * b.num, a.den * b.den);
}

/** `a / b`. Throws INTERNAL when `b` is zero. */
export function divideRational(a: Rational, b: Rational): Rational {
  return rational(a.num * b.den, a.den * b.num);
}

/** Below zero, zero or above zero as `a` is less than, equal to or greater than `b`. */
export function compareRational(a: Rational, b: Rational): number {
  const difference = a.num * b.den - b.num * a.den;
  if (difference === 0n) return 0;
  return difference < 0n ? -1 : 1;
}

/** The greatest integer that is not above `a`. */
export function floorRational(a: Rational): bigint {
  const quotient = a.num / a.den;
  return a.num < 0n && a.num % a.den !== 0n ? quotient - 1n : quotient;
}

/** The least integer that is not below `a`. */
export function ceilRational(a: Rational): bigint {
  return -floorRational({ num: -a.num, den: a.den });
}

/** `⌊amount × factor⌋` for an amount and a factor that are not negative: one rounding, at the end. */
export function scaleFloor(amount: bigint, factor: Rational): bigint {
  return floorRational({ num: amount * factor.num, den: factor.den });
}

/** `⌈amount × factor⌉` for an amount and a factor that are not negative: one rounding, at the end. */
export function scaleCeil(amount: bigint, factor: Rational): bigint {
  return ceilRational({ num: amount * factor.num, den: factor.den });
}

/** Reads a decimal text such as `0.975`, `-2` or `1e-7`; undefined when it is none. */
export function decimalToRational(text: string): Rational | undefined {
  const [, sign, whole, fraction = "", exponent = "0"] = DECIMAL.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const digits = BigInt(`${whole}${fraction}`);
  const shift = Number(exponent) - fraction.length;
  const scale = 10n ** BigInt(Math.abs(shift));
  const signed = sign === "-" ? -digits : digits;
  return shift < 0 ? rational(signed, scale) : rational(signed * scale);
}

/**
 * The decimal text of a float64 without an exponent, with the fewest digits that read back as the same number: what
 * Go prints with the format `f` and precision -1. Throws INTERNAL for NaN and the infinities.
 */
export function float64ToDecimal(value: number): string {
  if (!Number.isFinite(value)) throw new AppError("INTERNAL", { message: "a parameter is not a finite number" });
  // JavaScript prints the same digits as Go, but changes to an exponent for the very small and the very large.
  const [mantissa = "", exponent] = (Object.is(value, -0) ? "-0" : String(value)).split("e");
  if (exponent === undefined) return mantissa;
  const sign = mantissa.startsWith("-") ? "-" : "";
  const [whole = "", fraction = ""] = mantissa.slice(sign.length).split(".");
  const digits = `${whole}${fraction}`;
  const point = whole.length + Number(exponent);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return `${sign}${digits.padEnd(point, "0")}`;
}

/**
 * The fraction that a float64 parameter stands for: its shortest decimal text, read exactly. So 0.1 is 1/10, not the
 * nearest binary fraction. The protocol's percentages are float64 on the wire; this is the only function by which they
 * reach money. Throws INTERNAL for NaN and the infinities.
 */
export function float64ToRational(value: number): Rational {
  const parsed = decimalToRational(float64ToDecimal(value));
  if (parsed === undefined) throw new AppError("INTERNAL", { message: "a number has no decimal text" });
  return parsed;
}
