import type { staking } from "@turnpike/proto";
import { DECIMAL_ONE, decimalOf, decimalText } from "../../state/numbers.ts";
import { timestampNanos } from "../../state/timestamps.ts";
import { isDenom } from "../bank/coins.ts";

// Stricter than the SDK, whose times are of 64 bits and whose engine stops at 2^60 of power.
const LONGEST_UNBONDING_NANOS = 100n * 365n * 86_400_000_000_000n;
const MOST_VALIDATORS = 1000;

/** Why parameters are not valid, in the SDK's words; undefined when they are. */
export function paramsFault(params: staking.Params): string | undefined {
  const { unbondingTime, maxValidators, maxEntries, bondDenom, minCommissionRate } = params;
  const unbondingNanos = timestampNanos(unbondingTime);
  if (unbondingNanos <= 0n) return "unbonding time must be positive";
  if (unbondingNanos > LONGEST_UNBONDING_NANOS) return "unbonding time must be at most 100 years";
  if (maxValidators === 0) return "max validators must be positive: 0";
  if (maxValidators > MOST_VALIDATORS) return `max validators must be at most ${MOST_VALIDATORS}: ${maxValidators}`;
  if (maxEntries === 0) return "max entries must be positive: 0";
  if (bondDenom.trim() === "") return "bond denom cannot be blank";
  if (!isDenom(bondDenom)) return `invalid denom: ${bondDenom}`;
  const least = decimalOf(minCommissionRate === "" ? "0" : minCommissionRate);
  if (least === undefined) return "minimum commission rate cannot be nil";
  if (least < 0n) return `minimum commission rate cannot be negative: ${decimalText(least)}`;
  if (least > DECIMAL_ONE) return `minimum commission rate cannot be greater than 100%: ${decimalText(least)}`;
  return undefined;
}
