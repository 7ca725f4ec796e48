import { AppError } from "@turnpike/base";

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** Seconds of a time such as 30m, 1h or 7d. @throws AppError USAGE that names the option. */
export function secondsOf(text: string, option: string, more = ""): number {
  const [, digits, unit = ""] = /^([1-9]\d{0,8})([smhd])$/.exec(text) ?? [];
  const seconds = Number(digits) * (UNITS[unit] ?? Number.NaN);
  if (Number.isSafeInteger(seconds)) return seconds;
  throw new AppError("USAGE", { message: `${option}: expected a time such as 30m, 1h or 7d${more}.` });
}
