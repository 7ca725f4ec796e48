/** An exact decimal number: `digits` / 10^`scale`. */
export interface Decimal {
  readonly digits: bigint;
  readonly scale: number;
}

// Longer ones are no number: reading them takes more than linear time.
const MAX_DIGITS = 1000;
const LEADING = /^\d+(?:\.\d+)?/;
const WHOLE = /^-?\d+(?:\.\d*)?$/;

function read(text: string): Decimal | undefined {
  if (text.length > MAX_DIGITS) return undefined;
  const [whole = "", fraction = ""] = text.split(".");
  return { digits: BigInt(whole + fraction), scale: fraction.length };
}

/** The number that a text is; undefined when it is none. */
export function decimalOf(text: string): Decimal | undefined {
  return WHOLE.test(text) ? read(text) : undefined;
}

/** The number that a text begins with, such as that of `8upokt`; undefined when there is none. */
export function leadingDecimal(text: string): Decimal | undefined {
  const [number] = LEADING.exec(text) ?? [];
  return number === undefined ? undefined : read(number);
}

/** Less than 0, 0, or more than 0. */
export function compareDecimals(a: Decimal, b: Decimal): number {
  const left = a.digits * 10n ** BigInt(Math.max(0, b.scale - a.scale));
  const right = b.digits * 10n ** BigInt(Math.max(0, a.scale - b.scale));
  return left < right ? -1 : left > right ? 1 : 0;
}
