import { AppError } from "@turnpike/base";
import { isDenom } from "../modules/bank/coins.ts";
import type { GasPrice } from "./fees.ts";

const PRICE = /^(\d+)(?:\.(\d{1,18}))?([a-zA-Z].*)$/;

/** Reads prices as nodes have them in their configuration: `0.000001upokt`, with commas between them. @throws AppError CONFIG_INVALID */
export function gasPricesOf(text: string): GasPrice[] {
  return text
    .split(",")
    .filter((part) => part.trim() !== "")
    .map((part) => {
      const [, whole = "", fraction = "", denom = ""] = PRICE.exec(part.trim()) ?? [];
      if (!isDenom(denom)) {
        throw new AppError("CONFIG_INVALID", { message: `${part} is no gas price; write one such as 0.000001upokt.` });
      }
      return { denom, numerator: BigInt(`${whole}${fraction}`), denominator: 10n ** BigInt(fraction.length) };
    })
    .sort((a, b) => (a.denom < b.denom ? -1 : 1));
}
